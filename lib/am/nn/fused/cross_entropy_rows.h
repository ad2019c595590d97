// Sums and gradient of cross-entropy, per row of logits. Computed by kernels where tensors.h has
// them, otherwise by ATen's operators on a few rows at a time.
#pragma once

#include "am/nn/fused/cross_entropy.h"

namespace am::nn::fused {

// logits_Nv must be dense.
LogitSums logit_sums(const at::Tensor& logits_Nv, const at::Tensor& labels_N,
                     const LabelRange& range);

// Sets out_Nv to (softmax - one_hot(label)) * scale, and to 0 in rows whose label is ignored.
// `out_Nv` may be the logits. sums_N: logarithm of each row's sum of exponentials; scale: a tensor
// without dims.
void cross_entropy_gradient(at::Tensor& out_Nv, const at::Tensor& logits_Nv,
                            const at::Tensor& sums_N, const at::Tensor& labels_N,
                            const LabelRange& range, const at::Tensor& scale);

}  // namespace am::nn::fused
