#include "am/planner/expert_activations.h"

#include <algorithm>

#include "am/base/number.h"

namespace am::planner {
namespace {

using model::Role;

constexpr double kIndexBytes = 8.0;

}  // namespace

ExpertBytes expert_bytes(const ActivationContext& context, const LocalLayer& layer, double hidden) {
  const double N = context.tokens;
  const double p = context.product_bytes;
  const model::RouterSpec& router = *layer.spec().router;
  const auto taken = as_double(router.taken);
  const double wide = std::max(4.0, context.compute_bytes);
  ExpertBytes bytes;
  // The router reads its input as it is; autocast narrows it for each of the others.
  const double readers = layer.trained_readers(false);
  const double routers = layer[Role::kRouter].trains ? 1.0 : 0.0;
  bytes.input = context.casts()
                    ? N * hidden * (routers * context.compute_bytes + (readers - routers) * p)
                    : N * hidden * p * std::min(readers, 1.0);
  bytes.routing = 3.0 * N * taken * kIndexBytes;
  const bool trains = layer[Role::kExpertGate].trains || layer[Role::kExpertUp].trains ||
                      layer[Role::kExpertGateUp].trains;
  const double rows = trains ? N * taken * hidden * p : 0.0;
  const double shares = layer.has(Role::kSharedWeigher) ? N * p : 0.0;
  bytes.routed = rows + N * (as_double(router.experts) + taken) * wide + shares;
  return bytes;
}

BackwardBytes expert_backward(const ActivationContext& context, const LocalLayer& layer,
                              double hidden) {
  const model::RouterSpec& router = *layer.spec().router;
  const double p = context.product_bytes;
  const double rows = context.tokens * as_double(router.taken);
  const double of_one = rows / as_double(router.experts);
  const double width = layer[Role::kExpertDown].in;
  const double shared = layer[Role::kSharedDown].in;
  const double of_rows = rows * hidden * p;
  // The two factors of the down projection's gradients, then those of gate and up beside one.
  const auto inside = [&](double count, double wide, bool trains) {
    const double copy = trains ? transposed_copy(context, count / context.tokens * hidden) : 0.0;
    return 2.0 * count * wide * p + std::max(count * wide * p, copy);
  };
  const double of_output = hidden_bytes(context, hidden);
  const bool shares = shared > 0.0;
  const double in_shared = inside(context.tokens, shared, layer[Role::kSharedDown].trains);
  const double in_expert = inside(of_one, width, layer[Role::kExpertDown].trains);
  // After shared experts their factors are gone, and a gradient of their input is there.
  const double after_shared = shares ? of_output - 2.0 * context.tokens * shared * p : 0.0;
  // Of an expert that is done, its rows' gradients are there and its factors are gone.
  const double of_others = std::max(0.0, (rows - of_one) * (hidden - 2.0 * width) * p);
  const double all = of_output + of_rows;
  return {all + (shares ? in_shared : in_expert), all + after_shared + in_expert + of_others};
}

}  // namespace am::planner
