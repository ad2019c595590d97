// Sends the rows of tokens to the ranks of a group that hold the tokens' experts, and sends the
// experts' results back. Every rank holds equally many consecutive experts, in the order of the
// ranks.
//
// Forward runs three exchanges: of the number of rows per expert (8 bytes for each expert), of the
// rows and their routing weights (two overlapping messages), and of the experts' results. Backward
// runs two. A checkpointed segment keeps the row counts (Placement::received_Pe), so that its
// recomputation does not exchange them again. No token is dropped, so memory grows with the number
// of rows that arrive.
#pragma once

#include "am/nn/experts/token_dispatcher.h"
#include "am/runtime/group.h"

namespace am::parallel::ep {

class AllToAllDispatcher final : public nn::TokenDispatcher {
 public:
  // `group` must outlive this object and the autograd graphs that this object builds.
  explicit AllToAllDispatcher(const runtime::Group& group) : group_(group) {}

  mesh::Extent own(int64_t experts) const override;
  nn::Placement place(const at::Tensor& ids_Nk, int64_t experts) const override;
  nn::Dispatched dispatch(const at::Tensor& x_ND, const at::Tensor& weights_Nk,
                          const nn::Placement& placed) const override;
  at::Tensor combine(const std::vector<at::Tensor>& rows, const nn::Placement& placed,
                     const at::Tensor& added_ND, bool unread) const override;

 private:
  const runtime::Group& group_;
};

}  // namespace am::parallel::ep
