// RMSNorm in one pass over its input, forward and backward.
//
//   n = x / sqrt(mean(x^2) + eps);  y = weight * n, or (1 + weight) * n
//
// Keeps x and one number per row until backward. The statistics are computed in float32 (float64
// for float64). For bfloat16 and float16, model::NormKind defines the rounding: kRms rounds n and
// then weight * n (Hugging Face's LlamaRMSNorm); kRmsWide and kRmsPlusOne round only the result y
// (Olmo2RMSNorm, GemmaRMSNorm).
//
// On a GPU, the CUDA plugin's kernels run if x and the weight have one dtype
// (tensor/gpu_kernels.h). If the plugin's kernels cannot run, ATen's kernels run and round only y,
// whatever the kind; kRms then differs from Hugging Face by the rounding of n.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"

namespace am::nn::fused {

// Returns the RMSNorm of x [.., D] with a weight [D], in x's dtype. If the kind is kRms and the
// weight has another dtype than x, uses ATen's operators with float32 statistics; the result then
// has the dtype to which PyTorch promotes the two dtypes.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                    model::NormKind kind = model::NormKind::kRms);

struct NormedSum {
  at::Tensor sum;  // x + added
  at::Tensor y;    // RMSNorm of the sum
};

// Returns x + added and the RMSNorm of this sum. If x and `added` have one shape and dtype and the
// CUDA plugin's kernels support x, one kernel computes both results, and one kernel all gradients
// in backward. Otherwise two operators run.
NormedSum normed_sum(const at::Tensor& x, at::Tensor added, const at::Tensor& weight, double eps,
                     model::NormKind kind = model::NormKind::kRms);

}  // namespace am::nn::fused
