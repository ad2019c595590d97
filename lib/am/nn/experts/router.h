// Selects the top-k experts of each token and their weights.
//
// Logits, scores and weights are float32 whatever the computation's dtype (float64 for float64): in
// bfloat16 scores of two experts are often equal, and the choice between them would be arbitrary.
// Legend: N tokens, D hidden, E experts, k experts per token.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"
#include "am/nn/layers.h"

namespace am::nn {

struct Routing {
  at::Tensor ids_Nk;               // int64, best score first
  at::Tensor weights_Nk;           // float32 or float64
  at::Tensor balance;              // [1], float64: auxiliary loss, if enabled,
  at::Tensor sequence_weights_BE;  // ... and its weights (sequence_balance.h)
};

// Auxiliary loss of sequences (sequence_balance.h): the router's backward adds `factor` times its
// gradient to that of the scores. It is added there instead of to the loss, so that divisions and
// scales of the loss do not affect it.
struct SequenceBalance {
  double factor = 0.0;    // 0: disabled
  int64_t sequences = 1;  // number of sequences that the tokens belong to
  int64_t padding = 0;    // padding tokens at the end of each sequence
  SumOverRanks sum = {};  // over ranks that share the sequences; empty: none do
};

struct Router {
  Linear gate;  // its weight is [E, D]
  model::RouterSpec spec;
  // [E], added to the scores for the choice but not for the weights; not trainable (DeepSeek-V3,
  // 2024). Null: nothing is added.
  ParameterPtr correction = {};
  // Routes tokens round-robin, whatever their scores, for time and memory measurements that must
  // not depend on the routing (Megatron-LM's --moe-router-force-load-balancing). The meta device
  // splits rows evenly too (dispatch.h).
  bool in_turn = false;

  // Chooses experts unless `known` is given. With `known`, the result of an earlier call, reuses
  // its ids (and sequence_weights, if the auxiliary loss is on) and computes their weights:
  // recomputation of a checkpointed layer must not choose again.
  Routing operator()(const at::Tensor& x_ND, const SequenceBalance& balance = {},
                     const Routing& known = {}) const;
};

}  // namespace am::nn
