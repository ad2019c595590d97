// What a feed-forward of experts (nn/experts/) keeps until its backward, beside gate and up.
//
// Legend: N tokens of one micro-batch on this rank, D hidden, E experts, k of them taken by each
// token; c, p bytes of the compute dtype and of the dtype of matrix products.
#pragma once

#include "am/planner/activations.h"
#include "am/planner/local_layer.h"

namespace am::planner {

struct ExpertBytes {
  double input = 0.0;    // what the router, shared experts and what weighs those multiply
  double routing = 0.0;  // the choice: of each of N k rows its expert, its place and its token
  double routed = 0.0;   // N k rows of D, and what weighs them
  // A sum over ranks of shared experts' parts, and the share of it that is added: behind any
  // segment.
  double share_of_sum = 0.0;
};

// Rows of experts on this rank where one token takes `taken` of `experts`: those that arrive, and
// of them those whose gates and ups are kept (nn/experts/row_chunks.h), the rest of which are made
// again part by part.
struct ExpertRows {
  double all = 0.0;
  double kept = 0.0;
  double even = 0.0;    // of a rank where all have as many
  double of_one = 0.0;  // of the fullest expert; a token takes an expert once
};
ExpertRows expert_rows(const ActivationContext& context, const model::RouterSpec& router);

// Of a layer with a router. Its experts' outputs are not kept: the gradients of their weights come
// without them (nn/experts/weighed_down.h).
ExpertBytes expert_bytes(const ActivationContext& context, const LocalLayer& layer, double hidden);

// Gradients of its backward, where tokens take the experts evenly. Those of all rows are there from
// the sum's backward on; then shared experts come, and the experts one after the other, each with
// the gradients of its activation and of both factors, in the place of the factors of those before.
// `keeps_gate`: a checkpointed layer holds all that it kept of gates until its backward is over.
BackwardBytes expert_backward(const ActivationContext& context, const LocalLayer& layer,
                              double hidden, bool keeps_gate);

}  // namespace am::planner
