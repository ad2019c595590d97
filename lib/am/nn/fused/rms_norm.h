// RMSNorm in one pass over its input, forward and backward.
//
//   n = x / sqrt(mean(x^2) + eps);  y = weight * n, or (1 + weight) * n
//
// Keeps x and one number per row until backward. The statistics are computed in float32 (float64
// for float64). In a narrower dtype model::NormKind defines the rounding: kRms rounds n and then
// weight * n (Hugging Face's LlamaRMSNorm); kRmsWide and kRmsPlusOne round only the result y
// (Olmo2RMSNorm, GemmaRMSNorm). On a GPU, ATen's kernels run if x and the weight differ in dtype,
// or if the plugin's kernels cannot run (tensor/gpu_kernels.h). ATen's kernels round once for all
// kinds, so kRms then differs from Hugging Face by the rounding of n.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"

namespace am::nn::fused {

// Returns the RMSNorm of x_..D with weight_D, in x's dtype. If the kind is kRms and the weight has
// another dtype than x, uses a composite of ATen's operators and returns the promoted dtype.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                    model::NormKind kind = model::NormKind::kRms);

struct NormedSum {
  at::Tensor sum;  // x + added
  at::Tensor y;    // RMSNorm of the sum
};

// Returns x + added, of one shape and dtype, and the RMSNorm of this sum. A kernel on a GPU
// computes both in one pass, and both gradients in another; otherwise two operators run.
NormedSum normed_sum(const at::Tensor& x, at::Tensor added, const at::Tensor& weight, double eps,
                     model::NormKind kind = model::NormKind::kRms);

}  // namespace am::nn::fused
