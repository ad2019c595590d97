// Selects the top-k experts of each token and their weights.
//
// Logits, scores and weights are float32 (float64 for float64) whatever the dtype of x. In bfloat16
// the scores of two experts are often equal, and the choice between these experts would be
// arbitrary. Legend: B sequences, N tokens, D hidden, E experts, k experts per token.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"
#include "am/nn/layers.h"

namespace am::nn {

struct Routing {
  at::Tensor ids_Nk;      // int64 ids of each token's experts, best first unless Router::in_turn
  at::Tensor weights_Nk;  // weight of each chosen expert, in float32 or float64
  at::Tensor balance;     // auxiliary loss [1] in float64; undefined if disabled
  // Weight of each expert in each sequence's auxiliary loss (sequence_balance.h).
  at::Tensor sequence_weights_BE;
};

// Auxiliary loss of sequences (sequence_balance.h). The router's backward adds `factor` times the
// auxiliary loss's gradient to the gradient of the scores. The model's loss does not include the
// auxiliary loss, so `factor` must contain every divisor and scale of the auxiliary loss.
struct SequenceBalance {
  double factor = 0.0;    // factor of the auxiliary loss's gradient; 0: no auxiliary loss
  int64_t sequences = 1;  // number of sequences to which the tokens belong
  int64_t padding = 0;    // number of padding tokens at the end of each sequence
  // Sums token counts over the ranks that share sequences; empty: each sequence is local.
  SumOverRanks sum = {};
};

struct Router {
  Linear gate;  // linear layer with a weight [E, D]
  model::RouterSpec spec;
  // Correction [E] or [1, E], which is added to the scores for the choice of experts but not for
  // the weights, and is not trainable (DeepSeek-V3, 2024). Null if the family has none.
  ParameterPtr correction = {};
  // Whether tokens are routed round-robin, whatever their scores, for measurements of time and
  // memory that must not depend on the routing (Megatron-LM's --moe-router-force-load-balancing).
  // The meta device splits rows evenly too (dispatch.h).
  bool in_turn = false;

  // Chooses experts and computes their weights. `known` is empty or the result of an earlier call.
  // If `known` has ids_Nk, the call does not choose experts, but uses ids_Nk and, if the auxiliary
  // loss is on, sequence_weights_BE of `known`. To use the experts of the layer's forward, the
  // recomputation of a checkpointed layer passes `known`.
  Routing operator()(const at::Tensor& x_ND, const SequenceBalance& balance = {},
                     const Routing& known = {}) const;
};

}  // namespace am::nn
