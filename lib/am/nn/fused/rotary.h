// Applies rotary position embedding in one pass, without negated, concatenated or multiplied
// copies.
//
// Elements i and i + R/2 of a head's R rotated elements form a pair. Only the shared tables are
// kept; backward is the inverse rotation.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace am::nn::fused {

// Returns x_BHTK rotated, laid out as [B, T, H, K] in memory if kernels run. cos_TR and sin_TR
// contain each angle twice, in both halves of R; they are [B, T, R] if sequences have different
// positions. R is even and at most K: the first R elements of a head are rotated, the rest are
// copied. If the tables' dtype differs from x's, ATen's operators run with their type promotion.
at::Tensor rotate(const at::Tensor& x_BHTK, const at::Tensor& cos_TR, const at::Tensor& sin_TR);

// Returns {rotate(queries), rotate(keys)}; a GPU computes both in one launch. Queries and keys may
// differ only in the number of heads.
std::pair<at::Tensor, at::Tensor> rotate_both(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                                              const at::Tensor& cos_TR, const at::Tensor& sin_TR);

}  // namespace am::nn::fused
