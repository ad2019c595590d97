// Which experts each token takes, and with what weights.
//
// Logits, scores and weights are float32 whatever the computation's dtype (float64 for float64):
// in bfloat16 two experts' scores are often equal, and the choice between them arbitrary.
// Legend: N tokens, D hidden, E experts, k of them taken by each token.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"
#include "am/nn/layers.h"

namespace am::nn {

struct Routing {
  at::Tensor ids_Nk;               // int64, the best score first
  at::Tensor weights_Nk;           // float32 or float64
  at::Tensor balance;              // [1], float64: the sequences', where they are balanced,
  at::Tensor sequence_weights_BE;  // ... and with what (sequence_balance.h)
};

// What the router's backward adds to the gradient of its scores: `factor` times that of the
// sequences' balance (sequence_balance.h). It enters there, not through a loss, so that nothing
// that divides or scales the loss reaches it.
struct SequenceBalance {
  double factor = 0.0;    // 0: nothing
  int64_t sequences = 1;  // of which the tokens are
  int64_t padding = 0;    // tokens at the end of each that stand for nothing
  SumOverRanks sum = {};  // over ranks that have other tokens of the same sequences; empty: none
};

struct Router {
  Linear gate;  // its weight is [E, D]
  model::RouterSpec spec;
  // [E], added to the scores for the choice and not for the weights; it does not train
  // (DeepSeek-V3, 2024). Null: nothing is added.
  ParameterPtr correction = {};
  // Tokens take experts in turn, whatever their scores. The meta device stands for this, and so
  // does a measurement of time or memory that luck should have no part in (Megatron-LM's
  // --moe-router-force-load-balancing).
  bool in_turn = false;

  // Without `known` it chooses. With a choice that was made before, its ids and where sequences are
  // balanced its sequence_weights, it weighs those: a second run of a checkpointed layer must not
  // choose again.
  Routing operator()(const at::Tensor& x_ND, const SequenceBalance& balance = {},
                     const Routing& known = {}) const;
};

}  // namespace am::nn
