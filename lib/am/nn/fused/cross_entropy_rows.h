// Cross-entropy of rows of logits: sums and gradient. Uses kernels, or ATen's operators on a few
// rows at a time; see tensors.h.
#pragma once

#include "am/nn/fused/cross_entropy.h"

namespace am::nn::fused {

// logits_Nv must be dense.
LogitSums logit_sums(const at::Tensor& logits_Nv, const at::Tensor& labels_N,
                     const LabelRange& range);

// out_Nv = (softmax - 1 at the label) * scale, 0 in rows whose label is ignored. `out` may be the
// logits. sums_N: logarithm of the sum of exponentials; scale: no dims.
void cross_entropy_gradient(at::Tensor& out_Nv, const at::Tensor& logits_Nv,
                            const at::Tensor& sums_N, const at::Tensor& labels_N,
                            const LabelRange& range, const at::Tensor& scale);

}  // namespace am::nn::fused
