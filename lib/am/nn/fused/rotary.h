// Applies rotary position embedding in one pass, without negated, concatenated or multiplied
// copies.
//
// Elements i and i + R/2 of a head's R rotated elements form a pair. Backward is the inverse
// rotation, so only the tables of cosines and sines, which layers share, are kept for it. Legend: B
// batch, T positions, H query heads, G key heads, K elements of a head.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace am::nn::fused {

// Returns x_BHTK rotated. If a kernel of the host or of the CUDA plugin runs, the result is laid
// out as [B, T, H, K] in memory. cos_TR and sin_TR contain the cosine and sine of each angle twice,
// in both halves of R; they are [B, T, R] if sequences have different positions. R is even and at
// most K: the first R elements of a head are rotated, the other elements are copied. If the tables'
// dtype differs from x's, ATen's operators run with their type promotion.
at::Tensor rotate(const at::Tensor& x_BHTK, const at::Tensor& cos_TR, const at::Tensor& sin_TR);

// Returns {rotate(queries), rotate(keys)}, computed in one launch if the CUDA plugin's kernel
// supports the arguments. The shapes of queries and keys may differ only in the number of heads.
std::pair<at::Tensor, at::Tensor> rotate_both(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                                              const at::Tensor& cos_TR, const at::Tensor& sin_TR);

}  // namespace am::nn::fused
