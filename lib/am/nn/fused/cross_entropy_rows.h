// The sums over each row of logits from which cross-entropy is computed (LogitSums), and the
// gradient of cross-entropy. If has_kernels() (tensors.h) is true for the logits, CPU kernels run.
// On a GPU, a GPU kernel runs if there is one (for the gradient, only without LossTerms). In all
// other cases, ATen's operators process a limited number of rows at a time. Legend: see
// cross_entropy.h.
#pragma once

#include "am/nn/fused/cross_entropy.h"

namespace am::nn::fused {

// Returns for each row of logits_Nv its maximum, the sum of exp(logit - maximum), and the logit of
// the label. logits_Nv must be contiguous.
LogitSums logit_sums(const at::Tensor& logits_Nv, const at::Tensor& labels_N,
                     const LabelRange& range);

// Sets out_Nv to the gradient of the cross-entropy and of `terms`, times `scale` (a scalar tensor),
// and to 0 in rows whose label is ignored. Without terms, the gradient is softmax - one_hot(label).
// `out_Nv` may be the logits. sums_N is the logarithm of each row's sum of exponentials over the
// whole vocabulary.
void cross_entropy_gradient(at::Tensor& out_Nv, const at::Tensor& logits_Nv,
                            const at::Tensor& sums_N, const at::Tensor& labels_N,
                            const LabelRange& range, const LossTerms& terms,
                            const at::Tensor& scale);

}  // namespace am::nn::fused
