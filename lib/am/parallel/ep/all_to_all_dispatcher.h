// Tokens' rows to the ranks of a group that have their experts, and back: each rank has as many
// experts as the next one, in the ranks' order.
//
// Three messages in forward: how many rows go where (8 E bytes a rank), the rows with their weights
// to their experts, and what experts made of them back; two in backward. A checkpointed segment
// keeps what the first one said (Placement::received_Pe), and sends rows alone again. No token is
// dropped, and memory follows what arrives.
#pragma once

#include "am/nn/experts/token_dispatcher.h"
#include "am/runtime/group.h"

namespace am::parallel::ep {

class AllToAllDispatcher final : public nn::TokenDispatcher {
 public:
  // The group must outlive it and the graphs that it makes.
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
