#include "am/predict/memory/expert_activations.h"

#include <algorithm>

#include "am/base/number.h"

namespace am::predict {
namespace {

using model::Role;

constexpr double kIndexBytes = 8.0;

// Returns the bytes of gate and up outputs that are recomputed at one time (ExpertRows::kept).
// `of_row`: bytes of one row's outputs.
double again_bytes(const ExpertRows& rows, double of_row) {
  return std::min(rows.all - rows.kept, rows.even) * of_row;
}

// Returns the width of a token's row at its expert: hidden_size, or less if experts read low-rank
// vectors.
double row_width(const layout::LocalLayer& layer) {
  return as_double(layer.spec().find(Role::kExpertDown)->out);
}

// Bytes that are live when experts' rows are exchanged between ranks (parallel/ep/). `first`: the
// gradients of rows have arrived; they exist twice, in arrival order and sorted by expert. `last`:
// the gradients of the experts' inputs are sent back. These gradients, the sent message and the
// received message are live; the saved rows and the outputs of gate and up are freed.
struct ExchangeBytes {
  double first = 0.0, last = 0.0;
};

// Returns the bytes at both moments of the exchange; zeros if one rank has all experts. `beside`:
// other live bytes. `of_rows`: bytes of all rows. `of_width`: bytes of the output of gate, or of
// up. `left`: 0 to 2, the number of these two outputs that stay saved. `rows_saved`: whether the
// rows were saved for the weights' gradients.
ExchangeBytes exchange_bytes(const ActivationContext& context, double beside, double of_rows,
                             double of_width, double left, bool rows_saved) {
  if (context.expert_ranks == 1.0) return {};
  return {beside + 2.0 * of_rows,
          beside + (rows_saved ? 2.0 : 3.0) * of_rows - (2.0 - left) * of_width};
}

// Returns the live bytes in the backward of experts whose weights are one stacked tensor
// (nn/experts/stacked.h). After the backward of the down projections, the gradients of all gate and
// up outputs are live; after the backward of gate and up, the gradients of all token rows are live.
// Each weight tensor has one gradient tensor, and the part of one expert is computed in a separate
// tensor.
BackwardBytes stacked_backward(const ActivationContext& context, const layout::LocalLayer& layer,
                               double hidden) {
  const model::RouterSpec& router = *layer.spec().router;
  const double p = context.product_bytes;
  const double experts = as_double(router.experts) / context.expert_ranks;
  const ExpertRows all_rows = expert_rows(context, router);
  const double rows = all_rows.kept;
  const double of_one = std::min(all_rows.of_one, rows);
  const layout::LocalModule &wide = layer[Role::kExpertGateUp], &down = layer[Role::kExpertDown];
  const double width = down.in;
  // Under autocast a weight's gradient is first computed in autocast's dtype.
  const auto narrow = [&](const layout::LocalModule& module) {
    return context.casts() && module.trains ? module.numel * p : 0.0;
  };
  const auto gradient = [&](const layout::LocalModule& module) {
    return module.trains ? module.numel * context.compute_bytes : 0.0;
  };
  // Number of products that compute an expert's gate and up, each with a part of the matrix.
  const double parts = layer.spec().activation == model::Activation::kClampedSilu ? 1.0 : 2.0;
  // Returns the bytes for the gradient of one of the `cut` parts of an expert's matrix, and for the
  // copy of the transposed left operand of the matmul that computes this gradient.
  const auto of_expert = [&](const layout::LocalModule& module, double cut) {
    if (!module.trains) return 0.0;
    const double left = module.spec->in_out ? module.in : module.out / cut;
    return module.numel / experts / cut * p +
           transposed_copy(context, of_one / context.tokens * left);
  };
  const double of_rows = all_rows.all * row_width(layer) * p;
  const double all =
      hidden_bytes(context, hidden) + of_rows + again_bytes(all_rows, 2.0 * width * p);
  const double in_down = (rows - of_one) * 2.0 * width * p +
                         std::max(4.0 * of_one * width * p,
                                  of_one * (3.0 * width + hidden) * p + of_expert(down, 1.0)) +
                         gradient(down) + narrow(down);
  // With two products, an expert's rows get two gradients, through gate and through up. Both are
  // live when they are added.
  const double second = parts > 1.0 ? of_one * hidden * p : 0.0;
  const double in_wide = std::max(of_expert(wide, parts), second) + narrow(wide);
  // walk_step() (step_walk.cpp) adds the layer's largest gradient of one parameter to `first` and
  // to `later`. In this layer, the largest is the gradient of the gate and up weights. This
  // gradient is not live at `first`, so its bytes are subtracted from `first`. If only the down
  // weights are trained, their gradient is subtracted, because in_down already contains it.
  const ExchangeBytes exchange =
      exchange_bytes(context, all - of_rows, of_rows, rows * width * p, 0.0, wide.trains);
  return {.first = all + in_down - std::max(gradient(wide), gradient(down)),
          .later = all + in_wide,
          .rows_arrive = exchange.first,
          .rows_return = exchange.last};
}

}  // namespace

ExpertRows expert_rows(const ActivationContext& context, const model::RouterSpec& router) {
  const double tokens = context.routed_tokens() * context.expert_ranks;
  const auto top_k = as_double(router.top_k), experts = as_double(router.experts);
  ExpertRows rows;
  rows.even = context.routed_tokens() * top_k;
  rows.of_one = context.skewed ? tokens : tokens * top_k / experts;
  rows.all = context.skewed ? tokens * std::min(top_k, experts / context.expert_ranks) : rows.even;
  rows.kept = std::min(rows.all, 2.0 * rows.even);
  return rows;
}

ExpertBytes expert_bytes(const ActivationContext& context, const layout::LocalLayer& layer,
                         double hidden) {
  const double N = context.routed_tokens();
  const double p = context.product_bytes;
  const model::RouterSpec& router = *layer.spec().router;
  const auto top_k = as_double(router.top_k);
  const double wide = std::max(4.0, context.compute_bytes);
  ExpertBytes bytes;
  // The router reads the input before autocast casts it; every other module that reads the input
  // saves its own cast copy under autocast. If the tokens of routed experts are sharded over tp,
  // the shared experts are sharded, too, and read all tokens from a separate tensor.
  const double sharing = context.expert_parts > 1.0 ? layer.trained_readers(false, true) : 0.0;
  const double readers = layer.trained_readers(false) - sharing;
  const double routers = layer[Role::kRouter].trains ? 1.0 : 0.0;
  bytes.input = context.casts()
                    ? N * hidden * (routers * context.compute_bytes + (readers - routers) * p)
                    : N * hidden * p * std::min(readers, 1.0);
  bytes.input += context.tokens * hidden * p * (context.casts() ? sharing : std::min(sharing, 1.0));
  bytes.routing = 3.0 * N * top_k * kIndexBytes;
  const bool trains = layer[Role::kExpertGate].trains || layer[Role::kExpertUp].trains ||
                      layer[Role::kExpertGateUp].trains;
  const double received = expert_rows(context, router).all;
  const double rows = trains ? received * row_width(layer) * p : 0.0;
  // If tp shards the shared experts, their output is a sum over ranks, and their gate scales it
  // after the sum.
  const double between = context.tokens / context.sequence_parts;
  const bool weighs = layer.has(Role::kSharedWeigher);
  const bool apart = context.expert_parts > 1.0;
  if (weighs && apart) bytes.share_of_sum = between * (hidden + 1.0) * p;
  const double shares = weighs && !apart ? N * p : 0.0;
  bytes.routed = rows + (N * as_double(router.experts) + received) * wide + shares;
  return bytes;
}

double combining_bytes(const ActivationContext& context, const layout::LocalLayer& layer,
                       double hidden) {
  const double p = context.product_bytes;
  const double of_rows = expert_rows(context, *layer.spec().router).all * row_width(layer) * p;
  const double input =
      layer.trained_readers(false) > 0.0 ? 0.0 : context.routed_tokens() * hidden * p;
  if (context.expert_ranks > 1.0) return input + 3.0 * of_rows;
  // If no module saves the rows, they are freed after all outputs have been computed.
  const bool saved = layer[Role::kExpertGate].trains || layer[Role::kExpertUp].trains ||
                     layer[Role::kExpertGateUp].trains;
  return input + of_rows + std::max(hidden_bytes(context, hidden), saved ? 0.0 : of_rows);
}

BackwardBytes expert_backward(const ActivationContext& context, const layout::LocalLayer& layer,
                              double hidden, bool keeps_gate) {
  if (layer.has(Role::kExpertGateUp)) return stacked_backward(context, layer, hidden);
  const model::RouterSpec& router = *layer.spec().router;
  const double p = context.product_bytes;
  const ExpertRows all_rows = expert_rows(context, router);
  const double rows = all_rows.kept;
  const double of_one = std::min(all_rows.of_one, rows);
  const double width = layer[Role::kExpertDown].in;
  const double shared = layer[Role::kSharedDown].in;
  const double row = row_width(layer);
  const double of_rows = all_rows.all * row * p;
  // Number of saved outputs (of gate and up) that are still live when their gradients are live.
  const double left = keeps_gate ? 1.0 : 0.0;
  // Returns the bytes of `count` rows in the down projection's backward: three tensors of `wide`
  // elements per row (gradients of the activation, gate and up), or two of them and the matmul's
  // copy if the copy is larger than the third.
  const auto in_down = [&](double count, double wide, bool trains) {
    const double copy = trains ? transposed_copy(context, count / context.tokens * hidden) : 0.0;
    return 2.0 * count * wide * p + std::max(count * wide * p, copy);
  };
  // Returns the bytes of `count` rows in the up projection's backward: the gradient of its input,
  // the saved outputs of gate that are still live, and the matmul's copy.
  const auto in_up = [&](double count, double wide, bool trains) {
    const double copy = trains ? transposed_copy(context, count / context.tokens * wide) : 0.0;
    return count * (hidden + left * wide) * p + copy;
  };
  const double all =
      hidden_bytes(context, hidden) + of_rows + again_bytes(all_rows, 2.0 * width * p);
  const double in_expert = std::max(in_down(of_one, width, layer[Role::kExpertDown].trains),
                                    in_up(of_one, width, layer[Role::kExpertUp].trains));
  // Change of live bytes due to finished experts: the gradients of their input rows are added. The
  // saved outputs of up are freed, and so are those of gate unless `keeps_gate`.
  const double of_finished = (rows - of_one) * (row - (2.0 - left) * width) * p;
  const double of_others = std::max(0.0, of_finished);
  const bool trains = layer[Role::kExpertGate].trains || layer[Role::kExpertUp].trains;
  const double after_shared =
      shared == 0.0 ? 0.0
                    : hidden_bytes(context, hidden) - (2.0 - left) * context.tokens * shared * p;
  const ExchangeBytes exchange =
      exchange_bytes(context, hidden_bytes(context, hidden) + after_shared, of_rows,
                     rows * width * p, left, trains);
  if (shared == 0.0) {
    return {.first = all + in_expert,
            .later = all + in_expert + of_others,
            .rows_arrive = exchange.first,
            .rows_return = exchange.last,
            .last_expert = all + in_expert + of_finished};
  }
  const double in_shared = in_down(context.tokens, shared, layer[Role::kSharedDown].trains);
  return {.first = all + in_shared,
          .later = all + std::max(in_up(context.tokens, shared, layer[Role::kSharedUp].trains),
                                  after_shared + in_expert + of_others),
          .rows_arrive = exchange.first,
          .rows_return = exchange.last,
          .last_expert = all + after_shared + in_expert + of_finished};
}

}  // namespace am::predict
