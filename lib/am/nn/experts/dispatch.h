// Tokens to the experts that they take, and back, where they are; token_dispatcher.h sends them.
//
//   const Placement placed = place_by_expert(ids_Nk, experts);
//   const auto rows = dispatch(x_ND, placed);          // of each expert [R_e, D], maybe none
//   const auto weights = deal(weights_Nk, placed);     // of each expert [R_e]
//   ... each expert's rows through it ...
//   out_ND = combine(rows, placed);                    // each token's k rows, added up
//
// No token is dropped: R = N k rows. A token's rows are added in the order of its choice, so that
// the sum does not depend on where the experts computed. Legend: N tokens, D hidden, k experts a
// token, R rows sorted by expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace am::nn {

struct Placement {
  at::Tensor slot_Nk;           // int64: the row of a token's j-th expert
  at::Tensor token_R;           // int64: whose row it is
  std::vector<int64_t> counts;  // rows of each expert
  // Where experts lie on several ranks (token_dispatcher.h): int64 on the host, how many rows each
  // rank has for each of this one's experts. Undefined: all are here.
  at::Tensor received_Pe = {};
};

// Rows sorted by expert, and for one expert by token. The meta device knows no choice: there each
// expert has as many rows as the next one.
Placement place_by_expert(const at::Tensor& ids_Nk, int64_t experts);
// So many rows over so many experts: each has as many as the next one, the first ones one more
// where that does not come out even.
std::vector<int64_t> dealt_evenly(int64_t rows, int64_t experts);

std::vector<at::Tensor> dispatch(const at::Tensor& x_ND, const Placement& placed);
std::vector<at::Tensor> deal(const at::Tensor& weights_Nk, const Placement& placed);
// `added_ND`, unless undefined, comes on top. `unread`: backward needs no value of it, and nobody
// else reads it, so that it has its shape and dtype alone.
at::Tensor combine(const std::vector<at::Tensor>& rows, const Placement& placed,
                   const at::Tensor& added_ND = {}, bool unread = false);

// What those are made of, without a graph. Tensors [.., D] of R rows together, and slot_Nk -> ND:
// each token's rows, and `added_ND` unless undefined, added up.
at::Tensor sum_of_slots(at::TensorList rows, const at::Tensor& slot_Nk,
                        const at::Tensor& added_ND = {});
// weights_Nk -> [R], by their slots.
at::Tensor by_slot(const at::Tensor& weights_Nk, const at::Tensor& slot_Nk);

}  // namespace am::nn
