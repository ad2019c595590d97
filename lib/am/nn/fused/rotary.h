// The rotation of rotary position embedding, in one pass: no negated, joined or multiplied copies.
//
// Dimension i turns with i + K/2. Keeps nothing but the shared tables; backward is the inverse
// rotation.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// x_BHTK, cos_TR and sin_TR (both halves of R alike; [B, T, R] where sequences have positions of
// their own) -> BHTK, laid out as [B, T, H, K] in memory where kernels run. R is even and at most
// K: the first R of a head turn, the others stay. Where the tables have another dtype than x,
// ATen's operators with their promotion.
at::Tensor rotate(const at::Tensor& x_BHTK, const at::Tensor& cos_TR, const at::Tensor& sin_TR);

}  // namespace am::nn::fused
