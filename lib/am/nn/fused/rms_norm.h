// RMSNorm in one pass over its input, forward and backward.
//
//   y = weight * x / sqrt(mean(x^2) + eps)
//
// Keeps x and one number a row until backward. The statistics are computed in float32 (float64 for
// float64); in a narrower dtype the normalised values are rounded to it before the scale, as in
// Hugging Face's LlamaRMSNorm.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// x_..D, weight_D -> ..D. Where weight has another dtype than x, the composite of ATen's operators.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace am::nn::fused
