// Mixture-of-experts feed-forward. The output for token t is the weighted sum of the outputs of its
// top-k experts j, plus the output of the shared expert in families that have one:
//
//   out_t = sum over j of weight_tj * expert_j(x_t) + share_t * shared(x_t)
//
// share_t is the sigmoid of shared_weigher's output, or 1 if the family has no shared_weigher.
//
// Backward needs the dispatched x, gate and up, the routing weights, and the choice of experts
// (dispatch.h). Every expert's weights receive a gradient, which is zero if no token was routed to
// the expert, so that all ranks reduce equal sets of tensors. Legend: B batch, T sequence, t this
// rank's part of T, N tokens, D hidden, k experts per token.
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

// Shards tokens over ranks that hold the same tokens, so that each rank routes only its part of
// them.
struct SequenceSharder {
  Transform own;  // returns this rank's part [B, t, D] of x_BTD
  // Gathers all ranks' x_BtD to [B, T, D], with T = `length`.
  std::function<at::Tensor(const at::Tensor& x_BtD, int64_t length)> all;
};

struct ExpertFeedForward {
  Router router;
  std::vector<Expert> experts;  // all routed experts, including those of other ranks
  // In some families, replaces `experts`: the experts of this rank, stacked.
  std::optional<StackedExperts> stacked;
  std::optional<Expert> shared;
  // Linear layer; the sigmoid of its output is the weight of the shared expert.
  std::optional<Linear> shared_weigher;
  model::Activation activation = model::Activation::kSilu;
  // Number of tokens routed to each expert since the caller last cleared `counts`, without padding
  // tokens. A recomputation adds nothing.
  mutable std::vector<int64_t> counts = {};
  // balance_factor is the coefficient of each sequence's auxiliary loss (router.h). balance is the
  // sum of these losses, not multiplied by balance_factor, since the caller last cleared `balance`:
  // [1] in float64, or undefined if there were none.
  double balance_factor = 0.0;
  mutable at::Tensor balance = {};
  // Sums token counts over the ranks that share sequences (SequenceBalance::sum).
  SumOverRanks sum_of_sequences = {};
  // Number of padding tokens at the end of each local sequence, which are routed but not counted.
  int64_t padding = 0;

  // Returns the number of routed experts.
  int64_t count() const { return router.spec.experts; }
  // Shards x over ranks; null if this rank routes all of x.
  std::shared_ptr<const SequenceSharder> sharder = {};
  // Sends tokens to the ranks of their experts. Never null.
  TokenDispatcherPtr dispatcher = std::make_shared<const LocalDispatcher>();

  // Returns the input of `finish` for x_BTD. `keeps_gate`: whether an enclosing segment
  // (checkpoint.h) keeps the gates' outputs instead of recomputing them. `leaves`: whether the
  // enclosing segment returns the result without reading it.
  Tensors product(const at::Tensor& x_BTD, bool keeps_gate, bool leaves,
                  RecomputeTape& products) const;
  // Returns the layer's output [B, T, D], with T = `length`. Gathers tokens that are sharded over
  // ranks, and adds the shared expert's output if product() has not added it.
  at::Tensor finish(const Tensors& made, int64_t length) const;

  // Returns all linear layers of the feed-forward.
  std::vector<Linear*> linears();

 private:
  struct Chosen {
    at::Tensor ids_Nk;
    at::Tensor weights_Nk;
    Placement placed;
  };
  Chosen choose(const at::Tensor& x_ND, int64_t sequences, RecomputeTape& products) const;
  // Returns the number of padding tokens routed to each expert.
  std::vector<int64_t> counts_of_padding(const at::Tensor& ids_Nk, int64_t sequences) const;
  // Runs the dispatched rows through this rank's experts. `even` is the number of rows that each
  // rank would have under perfect balance.
  Tensors routed(const Dispatched& dispatched, int64_t even, bool keeps_gate, bool unread,
                 RecomputeTape& products) const;
  // Runs one part of the rows (row_chunks.h), other than the first part, as a checkpointed segment.
  // The outputs of experts without rows are undefined, except for stacked experts.
  Tensors surplus(const Dispatched& part, bool unread) const;
  // Whether any weight of the routed experts is trainable. Adapters are not considered.
  bool trains() const;
  Tensors computed(const Dispatched& part, bool keeps_gate, bool unread,
                   RecomputeTape& products) const;
  // Whether product() returns the shared expert's product separately from the routed experts' sum.
  // The two are separate if the shared expert's product is a partial sum over ranks, or if the
  // shared expert processes all tokens while this rank routes only its part of the tokens.
  bool shares_apart() const { return sharder || (shared && shared->down_proj.output); }
  // Returns the shared expert's weighted product, which is added to the routed experts' output.
  at::Tensor shared_product(const at::Tensor& x_ND, bool keeps_gate, bool unread,
                            RecomputeTape& products) const;
  // Returns the shared expert's product before it is weighted, followed by the sigmoid of
  // shared_weigher's output if the family has a shared_weigher.
  Tensors apart(const at::Tensor& x_BTD, bool keeps_gate, bool unread,
                RecomputeTape& products) const;
};

}  // namespace am::nn
