// Memory that a feed-forward of experts (nn/experts/) saves until its backward, besides gate and
// up.
//
// Legend: N tokens of one micro-batch on this rank, D hidden, E experts, k experts per token; c, p
// bytes of the compute dtype and of the dtype of matmuls.
#pragma once

#include "am/layout/local_layer.h"
#include "am/predict/memory/activations.h"

namespace am::predict {

struct ExpertBytes {
  double input = 0.0;    // input of the router, the shared experts and their gate
  double routing = 0.0;  // routing: expert, position and token of each of the N k rows
  double routed = 0.0;   // N k rows of D elements, and their routing weights
  // The sum over ranks of the shared experts' parts, and the share of it that is added. Outside of
  // every recompute segment, so kept in all modes.
  double share_of_sum = 0.0;
};

// Rows that this rank's experts process per micro-batch, if each token is routed to `taken` of
// `experts`: `all` that arrive, and `kept`, the rows whose gates and ups are saved
// (nn/experts/row_chunks.h); gates and ups of the others are recomputed in parts.
struct ExpertRows {
  double all = 0.0;
  double kept = 0.0;
  double even = 0.0;  // rows per rank under perfect balance
  // Rows of the expert with most rows; a token is routed to an expert at most once.
  double of_one = 0.0;
};
ExpertRows expert_rows(const ActivationContext& context, const model::RouterSpec& router);

// Saved bytes of a layer with a router. The experts' outputs are not saved: their weight gradients
// do not need them (nn/experts/weighed_down.h).
ExpertBytes expert_bytes(const ActivationContext& context, const layout::LocalLayer& layer,
                         double hidden);

// Activation gradients of the experts' backward. Gradients of all rows exist from the backward of
// the sum over experts on. The shared experts run next, then the experts one by one, each with the
// gradients of its activation and of both factors (gate and up). A finished expert's saved factors
// are freed; `keeps_gate`: in a checkpointed layer the saved gates stay until its backward ends.
BackwardBytes expert_backward(const ActivationContext& context, const layout::LocalLayer& layer,
                              double hidden, bool keeps_gate);

}  // namespace am::predict
