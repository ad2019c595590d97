// Cross-entropy of logits that may be sharded over the vocabulary, without copying them.
//
// Forward keeps the logits and one number per row, the logarithm of the sum of exponentials: no
// float32 copy, no log-softmax. Backward overwrites the logits with their gradient if nothing else
// refers to them (Note [Logits that are the loss's alone] in the source).
//
// Legend: N tokens, V vocabulary, v this rank's slice of the vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace am::nn::fused {

// Sums of each row of logits, in float32 (float64 for float64).
struct LogitSums {
  at::Tensor maximum_N;
  at::Tensor exponentials_N;  // sum of e^(logit - maximum) over the row
  at::Tensor label_N;         // logit at the label; 0 if the label is in another rank's slice
};

struct LabelRange {
  int64_t first = 0;  // vocabulary id of column 0
  int64_t ignored = -100;
};

// Terms that the gradient of the cross-entropy has in addition, for each counted label y of logits
// x_V with the log-sum L = log sum_v e^(x_v). The returned loss does not contain them.
//   label smoothing:  label_smoothing * (x_y - mean_v x_v)
//   z-loss:           z_loss * L^2
struct LossTerms {
  double label_smoothing = 0.0;
  double z_loss = 0.0;
  int64_t vocabulary = 0;  // V, the width over all ranks

  bool none() const { return label_smoothing == 0.0 && z_loss == 0.0; }
};

// Combines the sums of all ranks' slices into sums over the whole vocabulary, in place.
using CombineSums = std::function<void(LogitSums& sums)>;

// Returns the sum of cross-entropies over the tokens whose label is not range.ignored, of
// logits_..v and labels (int64 ids of the whole vocabulary, one per row). The result is a scalar
// tensor in the sums' dtype. Without `combine`, v is the whole vocabulary, and a label outside it
// throws Error(kUsage) (tensor/token_check.h); callers with a sharded vocabulary must check labels
// themselves. The gradient has `terms` too.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             const LabelRange& range, const CombineSums& combine = {},
                             const LossTerms& terms = {});

}  // namespace am::nn::fused
