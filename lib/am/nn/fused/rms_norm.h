// RMSNorm in one pass over its input, forward and backward.
//
//   n = x / sqrt(mean(x^2) + eps);  y = weight * n, or (1 + weight) * n
//
// Keeps x and one number a row until backward. The statistics are computed in float32 (float64 for
// float64). In a narrower dtype model::NormKind says where it rounds: kRms rounds n and then the
// product (Hugging Face's LlamaRMSNorm), kRmsWide and kRmsPlusOne the product alone (Olmo2RMSNorm,
// GemmaRMSNorm). ATen's kernels for GPUs (device.h) round once for all kinds: kRms there differs
// from Hugging Face's by the rounding of n.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"

namespace am::nn::fused {

// x_..D, weight_D -> ..D, in x's dtype. kRms of a weight in another dtype than x: the composite of
// ATen's operators, in the dtype that the two promote to.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                    model::NormKind kind = model::NormKind::kRms);

}  // namespace am::nn::fused
