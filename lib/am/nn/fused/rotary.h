// The rotation of rotary position embedding, in one pass: no negated, concatenated or multiplied
// copies.
//
// Dimension i is rotated with i + K/2. Keeps only the shared tables; backward is the inverse
// rotation.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// x_BHTK, cos_TR and sin_TR (both halves of R are equal; [B, T, R] if sequences have different
// positions) -> BHTK, laid out as [B, T, H, K] in memory if kernels run. R is even and at most K:
// the first R elements of a head are rotated, the others are copied. If the tables' dtype differs
// from x's, ATen's operators run with their type promotion.
at::Tensor rotate(const at::Tensor& x_BHTK, const at::Tensor& cos_TR, const at::Tensor& sin_TR);

}  // namespace am::nn::fused
