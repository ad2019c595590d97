// Interface that sends tokens to the ranks of their experts, and the experts' results back.
// LocalDispatcher implements the interface for local experts, and parallel/ep/ for experts on
// several ranks.
//
//   Placement placed = dispatcher.place(ids_Nk, experts);           // once; checkpointing keeps it
//   const Dispatched rows = dispatcher.dispatch(x_ND, weights_Nk, placed);
//   ...   // runs each local expert on its rows, and multiplies the outputs by the weights
//   const at::Tensor out_ND = dispatcher.combine(out, placed, added_ND, unread);
//
// Legend: N tokens, D hidden, E experts, e of them on this rank, k experts per token, R rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "am/mesh/shard.h"
#include "am/nn/experts/dispatch.h"

namespace am::nn {

// The dispatched rows and their weights, with one tensor per local expert, in order.
struct Dispatched {
  std::vector<at::Tensor> rows;     // [R_e, D] for each expert, possibly empty
  std::vector<at::Tensor> weights;  // routing weights [R_e] for each expert
};

class TokenDispatcher {
 public:
  virtual ~TokenDispatcher() = default;

  // Returns the range of experts, out of `experts` in total, that this rank computes.
  virtual mesh::Extent own(int64_t experts) const = 0;
  // Computes the destinations of all rows from the chosen experts. Collective over the ranks that
  // share the experts.
  virtual Placement place(const at::Tensor& ids_Nk, int64_t experts) const = 0;
  // Sends a copy of each token, and its routing weight, to each of the token's experts. Returns the
  // rows of this rank's experts. Collective over the ranks that share the experts.
  virtual Dispatched dispatch(const at::Tensor& x_ND, const at::Tensor& weights_Nk,
                              const Placement& placed) const = 0;
  // Sends the experts' output rows back and combines them as nn::combine (dispatch.h) does.
  // Collective over the ranks that share the experts.
  virtual at::Tensor combine(const std::vector<at::Tensor>& rows, const Placement& placed,
                             const at::Tensor& added_ND, bool unread) const = 0;
};
using TokenDispatcherPtr = std::shared_ptr<const TokenDispatcher>;

// Dispatcher for experts that are all on this rank.
class LocalDispatcher final : public TokenDispatcher {
 public:
  mesh::Extent own(int64_t experts) const override { return {0, experts}; }
  Placement place(const at::Tensor& ids_Nk, int64_t experts) const override {
    return place_by_expert(ids_Nk, experts, padded_multiple(ids_Nk, experts));
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
