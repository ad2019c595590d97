// A layer's feed-forward of experts: each token passes some of them, and those that are shared.
//
//   out_t = sum over j of weight_tj * expert_j(x_t) + share_t * shared(x_t)
//
// Backward needs of the experts' part: x as it was dispatched, gate and up, the weights, and the
// choice (dispatch.h). Each expert's weights have a gradient, zeros where no token took it, so that
// all ranks reduce the same. Legend: N tokens, D hidden, k experts a token, R rows: N k where no
// other rank has experts.
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

// Tokens that are dealt out over ranks that would all route the same ones.
struct TokenDealer {
  Transform own;  // x_BTD -> this rank's BtD
  // BtD of each rank -> BTD, with T = `length`.
  std::function<at::Tensor(const at::Tensor& x_BtD, int64_t length)> all;
};

struct ExpertFeedForward {
  Router router;
  std::vector<Expert> experts;            // those that tokens choose from, other ranks' too,
  std::optional<StackedExperts> stacked;  // ... or all of them in one
  std::optional<Expert> shared;
  std::optional<Linear> shared_weigher;  // its sigmoid is the share
  model::Activation activation = model::Activation::kSilu;
  // How many tokens took each expert since somebody emptied it; a segment's second run adds none.
  mutable std::vector<int64_t> counts = {};
  // How much of each sequence's balance enters backward (router.h), and the sum of those balances,
  // [1] in float64, since somebody emptied it; undefined: there was none.
  double balance_factor = 0.0;
  mutable at::Tensor balance = {};
  SumOverRanks sum_of_sequences = {};  // see SequenceBalance
  // How many tokens at the end of each sequence here stand for nothing: they pass experts as others
  // do, and nobody counts them.
  int64_t padding = 0;

  // Of those that tokens choose from.
  int64_t count() const { return router.spec.experts; }
  // Null: this rank routes all of x.
  std::shared_ptr<const TokenDealer> dealer = {};
  // Who has which experts: `experts` lists all, `stacked` has this rank's. Never null.
  TokenDispatcherPtr dispatcher = std::make_shared<const LocalDispatcher>();

  // x_BTD -> what `finish` takes. `leaves`: the segment ends with these products.
  Tensors product(const at::Tensor& x_BTD, bool keeps_gate, bool leaves, Products& products) const;
  // -> BTD, with T = `length`: what ranks did apart is brought together.
  at::Tensor finish(const Tensors& made, int64_t length) const;

  // All that it has.
  std::vector<Linear*> linears();

 private:
  struct Chosen {
    at::Tensor ids_Nk;
    at::Tensor weights_Nk;
    Placement placed;
  };
  Chosen choose(const at::Tensor& x_ND, int64_t sequences, Products& products) const;
  // How many tokens that stand for nothing took each expert.
  std::vector<int64_t> counts_of_padding(const at::Tensor& ids_Nk, int64_t sequences) const;
  // Of each of this rank's experts the rows that were dispatched to it, through it. `even`: how
  // many rows there are where all ranks have as many.
  Tensors routed(const Dispatched& dispatched, int64_t even, bool keeps_gate, bool unread,
                 Products& products) const;
  // Of a part of the rows (row_chunks.h); of experts that have none, which are left out where
  // others are in other tensors, it is undefined.
  Tensors surplus(const Dispatched& part, bool unread) const;
  // Whether any expert that tokens choose from does.
  bool trains() const;
  Tensors computed(const Dispatched& part, bool keeps_gate, bool unread, Products& products) const;
  // Whether shared experts' product is a part of a sum over ranks, or of other tokens than the
  // others'.
  bool shares_apart() const { return dealer || (shared && shared->down_proj.output); }
  // Weighed, to be added to the others'.
  at::Tensor shared_product(const at::Tensor& x_ND, bool keeps_gate, bool unread,
                            Products& products) const;
  // By itself, and its share where that is not 1.
  Tensors apart(const at::Tensor& x_BTD, bool keeps_gate, bool unread, Products& products) const;
};

}  // namespace am::nn
