// The seam between tokens and the ranks that have their experts: one rank has all of them, or
// parallel/ep/ sends rows to where they are.
//
//   Placement placed = dispatcher.place(ids_Nk, experts);           // once; checkpointing keeps it
//   const Dispatched rows = dispatcher.dispatch(x_ND, weights_Nk, placed);
//   ... this rank's experts: of each its rows, times their weights ...
//   out_ND = dispatcher.combine(out, placed, added_ND, unread);
//
// Legend: N tokens, D hidden, E experts, e of them here, k taken by each token, R rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "am/mesh/shard.h"
#include "am/nn/experts/dispatch.h"

namespace am::nn {

// Of each of this rank's experts, in their order.
struct Dispatched {
  std::vector<at::Tensor> rows;     // [R_e, D], maybe none
  std::vector<at::Tensor> weights;  // [R_e]
};

class TokenDispatcher {
 public:
  virtual ~TokenDispatcher() = default;

  // Of `experts` those that this rank computes.
  virtual mesh::Extent own(int64_t experts) const = 0;
  // Where the rows of a choice go; on all ranks of a group together.
  virtual Placement place(const at::Tensor& ids_Nk, int64_t experts) const = 0;
  virtual Dispatched dispatch(const at::Tensor& x_ND, const at::Tensor& weights_Nk,
                              const Placement& placed) const = 0;
  // As nn::combine.
  virtual at::Tensor combine(const std::vector<at::Tensor>& rows, const Placement& placed,
                             const at::Tensor& added_ND, bool unread) const = 0;
};
using TokenDispatcherPtr = std::shared_ptr<const TokenDispatcher>;

// All experts are here.
class LocalDispatcher final : public TokenDispatcher {
 public:
  mesh::Extent own(int64_t experts) const override { return {0, experts}; }
  Placement place(const at::Tensor& ids_Nk, int64_t experts) const override {
    return place_by_expert(ids_Nk, experts);
  }
  Dispatched dispatch(const at::Tensor& x_ND, const at::Tensor& weights_Nk,
                      const Placement& placed) const override {
    return {nn::dispatch(x_ND, placed), deal(weights_Nk, placed)};
  }
  at::Tensor combine(const std::vector<at::Tensor>& rows, const Placement& placed,
                     const at::Tensor& added_ND, bool unread) const override {
    return nn::combine(rows, placed, added_ND, unread);
  }
};

}  // namespace am::nn
