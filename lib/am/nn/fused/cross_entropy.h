// Cross-entropy of logits that may be sharded over the vocabulary. Contiguous logits are not
// copied.
//
// Forward keeps the logits and one number per row, the logarithm of the sum of exponentials: no
// float32 copy, no log-softmax. Backward overwrites the logits with their gradient if nothing else
// refers to the logits (Note [Logits that only the loss holds] in the source).
//
// Legend: N tokens, V vocabulary, v the size of this rank's slice of the vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace am::nn::fused {

// Sums of each row of logits, in float32 (float64 for float64).
struct LogitSums {
  at::Tensor maximum_N;
  at::Tensor exponentials_N;  // sum of e^(logit - maximum) over the row
  at::Tensor label_N;         // logit at the label; 0 if the label is not in this rank's slice
};

struct LabelRange {
  int64_t first = 0;  // vocabulary id of column 0
  int64_t ignored = -100;
};

// Additional terms of the loss of each row whose label is not ignored. With i running over the
// whole vocabulary, x_i are the row's logits, y is the label, and L = log sum_i e^(x_i). Backward
// adds the terms' gradients to the gradient of the cross-entropy; the returned loss omits the
// terms.
//   label smoothing:  label_smoothing * (x_y - mean_i x_i)
//   z-loss:           z_loss * L^2
struct LossTerms {
  double label_smoothing = 0.0;
  double z_loss = 0.0;
  int64_t vocabulary = 0;  // V, the width over all ranks

  bool none() const { return label_smoothing == 0.0 && z_loss == 0.0; }
};

// Combines the sums of all ranks' slices into sums over the whole vocabulary, in place.
using CombineSums = std::function<void(LogitSums& sums)>;

// Returns the sum of the cross-entropies of logits_..v over the tokens whose label is not
// range.ignored: a scalar tensor in the dtype of LogitSums. `labels`: int64 ids of the whole
// vocabulary, one per row. Without `combine`, v is the whole vocabulary, and a label outside the
// vocabulary throws Error(kUsage) or, on a GPU, stops the process (tensor/token_check.h). Callers
// with a sharded vocabulary must check labels themselves. Backward adds the gradients of `terms`.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             const LabelRange& range, const CombineSums& combine = {},
                             const LossTerms& terms = {});

}  // namespace am::nn::fused
