// Mixture-of-experts feed-forward: each token passes its top-k experts and the shared expert.
//
//   out_t = sum over j of weight_tj * expert_j(x_t) + share_t * shared(x_t)
//
// Backward needs the dispatched x, gate and up, the routing weights, and the choice (dispatch.h).
// Every expert's weights receive a gradient, zeros if no token was routed to the expert, so that
// all ranks reduce equal sets of tensors. Legend: N tokens, D hidden, k experts per token, R rows:
// N k without expert parallelism.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "am/nn/checkpoint.h"
#include "am/nn/experts/dispatch.h"
#include "am/nn/experts/router.h"
#include "am/nn/experts/stacked.h"
#include "am/nn/experts/token_dispatcher.h"
#include "am/nn/layers.h"

namespace am::nn {

struct Expert {
  Linear gate_proj, up_proj, down_proj;
};

// Shards tokens over ranks that would otherwise all route the same tokens.
struct SequenceSharder {
  Transform own;  // x_BTD -> this rank's BtD
  // Gathers all ranks' BtD -> BTD, with T = `length`.
  std::function<at::Tensor(const at::Tensor& x_BtD, int64_t length)> all;
};

struct ExpertFeedForward {
  Router router;
  std::vector<Expert> experts;            // all routed experts, other ranks' included
  std::optional<StackedExperts> stacked;  // instead of `experts`: this rank's, stacked
  std::optional<Expert> shared;
  std::optional<Linear> shared_weigher;  // the sigmoid of its output weights the shared expert
  model::Activation activation = model::Activation::kSilu;
  // Tokens routed to each expert since the caller last cleared it. Recomputation does not add to
  // it.
  mutable std::vector<int64_t> counts = {};
  // balance_factor: coefficient of each sequence's auxiliary loss (router.h). balance: sum of these
  // losses since the caller last cleared it, [1] in float64; undefined if there were none.
  double balance_factor = 0.0;
  mutable at::Tensor balance = {};
  SumOverRanks sum_of_sequences = {};  // see SequenceBalance
  // Padding tokens at the end of each local sequence; routed, but not counted.
  int64_t padding = 0;

  // Number of routed experts.
  int64_t count() const { return router.spec.experts; }
  // Null: this rank routes all of x.
  std::shared_ptr<const SequenceSharder> sharder = {};
  // Sends tokens to the ranks of their experts. Never null.
  TokenDispatcherPtr dispatcher = std::make_shared<const LocalDispatcher>();

  // x_BTD -> the input of `finish`. `leaves`: the result is the recomputed segment's output.
  Tensors product(const at::Tensor& x_BTD, bool keeps_gate, bool leaves,
                  RecomputeTape& products) const;
  // Returns the layer's output [B, T, D], with T = `length`: gathers tokens that are sharded over
  // ranks, and adds a shared expert that is not yet included.
  at::Tensor finish(const Tensors& made, int64_t length) const;

  // All linears of the layer.
  std::vector<Linear*> linears();

 private:
  struct Chosen {
    at::Tensor ids_Nk;
    at::Tensor weights_Nk;
    Placement placed;
  };
  Chosen choose(const at::Tensor& x_ND, int64_t sequences, RecomputeTape& products) const;
  // Number of padding tokens routed to each expert.
  std::vector<int64_t> counts_of_padding(const at::Tensor& ids_Nk, int64_t sequences) const;
  // Runs the dispatched rows through this rank's experts. `even`: rows per rank under perfect
  // balance.
  Tensors routed(const Dispatched& dispatched, int64_t even, bool keeps_gate, bool unread,
                 RecomputeTape& products) const;
  // Runs a part of the rows, after the first part, as a checkpointed segment (row_chunks.h). The
  // result of an expert without rows is undefined unless experts are stacked.
  Tensors surplus(const Dispatched& part, bool unread) const;
  // Whether any routed expert is trainable.
  bool trains() const;
  Tensors computed(const Dispatched& part, bool keeps_gate, bool unread,
                   RecomputeTape& products) const;
  // Whether the shared expert's product is a partial sum over ranks, or covers other tokens than
  // the routed experts'.
  bool shares_apart() const { return sharder || (shared && shared->down_proj.output); }
  // Returns the shared expert's weighted product, to be added to the routed experts' output.
  at::Tensor shared_product(const at::Tensor& x_ND, bool keeps_gate, bool unread,
                            RecomputeTape& products) const;
  // Returns the shared expert's product without its weight, and the weight unless it is 1.
  Tensors apart(const at::Tensor& x_BTD, bool keeps_gate, bool unread,
                RecomputeTape& products) const;
};

}  // namespace am::nn
