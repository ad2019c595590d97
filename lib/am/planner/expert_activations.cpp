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

}  // namespace am::planner
