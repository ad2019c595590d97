// Copies each routed token once for each of its experts, sorts the copies by expert, and combines
// the experts' results, all on one rank. token_dispatcher.h declares the interface that sends the
// copies (rows) between ranks.
//
//   const Placement placed = place_by_expert(ids_Nk, experts);
//   const auto rows = dispatch(x_ND, placed);          // per expert [R_e, D], possibly empty
//   const auto weights = deal(weights_Nk, placed);     // per expert [R_e]
//   ...                                                // runs each expert on its rows
//   const at::Tensor out_ND = combine(rows, placed);   // each token's k rows, added up
//
// No token is dropped: R is N k plus the number of padding rows (Placement::counts). A token's rows
// are added in the order of its chosen experts, so that the sum does not depend on the ranks on
// which the experts run. Legend: N tokens, D hidden, k experts per token, R rows sorted by expert,
// R_e rows of expert e.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace am::nn {

struct Placement {
  at::Tensor slot_Nk;           // int64: [n, j] is the row that copies token n for its j-th expert
  at::Tensor token_R;           // int64: index of the token that each row copies; 0 for padding
  std::vector<int64_t> counts;  // number of rows of each expert, padding rows included
  std::vector<int64_t> routed = {};  // number of tokens routed to each expert
  // If experts are sharded over P ranks (token_dispatcher.h): number of rows that each rank sends
  // to each of this rank's e experts, int64 on the host. Undefined if all experts are local.
  at::Tensor received_Pe = {};
};

// Returns the placement of N k rows. Rows are sorted by expert, and the rows of one expert by
// token. On the meta device, where ids have no values, the rows are split evenly over the experts.
// Padding rounds the number of rows of each expert up to a multiple of `multiple`. Padding rows
// contribute to no result and no gradient, because their routing weights are 0.
Placement place_by_expert(const at::Tensor& ids_Nk, int64_t experts, int64_t multiple = 1);
// Returns the argument `multiple` of place_by_expert() for local experts. On a GPU, padding keeps
// the number of matmul shapes small: cuBLAS spends some 0.2 ms of host time on each new shape, and
// without padding almost every expert has a new shape in every step. Returns 1 (no padding) on
// other devices, and if the mean number of rows per expert is below 512, because padding would then
// add more than about 6 % of rows.
int64_t padded_multiple(const at::Tensor& ids_Nk, int64_t experts);
// Returns the number of rows of each expert if `rows` are split evenly. The remainder goes to the
// first experts, one row each.
std::vector<int64_t> split_evenly(int64_t rows, int64_t experts);

std::vector<at::Tensor> dispatch(const at::Tensor& x_ND, const Placement& placed);
std::vector<at::Tensor> deal(const at::Tensor& weights_Nk, const Placement& placed);
// Returns the sum of each token's k rows, plus `added_ND` if defined. `unread` means that nothing,
// backward included, reads the values; the result then has only a shape and dtype.
at::Tensor combine(const std::vector<at::Tensor>& rows, const Placement& placed,
                   const at::Tensor& added_ND = {}, bool unread = false);

// sum_of_slots() and by_slot() compute the values of combine() and deal() without an autograd
// graph. sum_of_slots() returns the sum of each token's rows, plus `added_ND` if defined: [N, D].
// `rows` are tensors [.., D] with R rows in total.
at::Tensor sum_of_slots(at::TensorList rows, const at::Tensor& slot_Nk,
                        const at::Tensor& added_ND = {});
// Returns the routing weight of each of the `rows` sorted rows, [R]; 0 for padding rows.
at::Tensor by_slot(const at::Tensor& weights_Nk, const at::Tensor& slot_Nk, int64_t rows);

}  // namespace am::nn
