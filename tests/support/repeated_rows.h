// A token dispatcher that repeats the rows of each expert, as if several ranks had sent the same
// tokens, and sums the expert's outputs over the copies of a row.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "am/nn/experts/token_dispatcher.h"

namespace am::test {

class RepeatedRows final : public nn::TokenDispatcher {
 public:
  explicit RepeatedRows(int64_t times) : times_(times) {}

  mesh::Extent own(int64_t experts) const override { return local_.own(experts); }
  nn::Placement place(const at::Tensor& ids_Nk, int64_t experts) const override {
    return local_.place(ids_Nk, experts);
  }
  nn::Dispatched dispatch(const at::Tensor& x_ND, const at::Tensor& weights_Nk,
                          const nn::Placement& placed) const override {
    nn::Dispatched rows = local_.dispatch(x_ND, weights_Nk, placed);
    for (at::Tensor& each : rows.rows) each = each.repeat({times_, 1});
    for (at::Tensor& each : rows.weights) each = each.repeat({times_});
    return rows;
  }
  at::Tensor combine(const std::vector<at::Tensor>& rows, const nn::Placement& placed,
                     const at::Tensor& added_ND, bool unread) const override {
    std::vector<at::Tensor> sums;
    for (const at::Tensor& each : rows) sums.push_back(each.unflatten(0, {times_, -1}).sum(0));
    return local_.combine(sums, placed, added_ND, unread);
  }

 private:
  int64_t times_;
  nn::LocalDispatcher local_;
};

}  // namespace am::test
