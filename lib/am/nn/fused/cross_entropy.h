// Cross-entropy over logits that may be cut over the vocabulary, without a copy of them.
//
// Forward reads the logits and keeps them with one number a row, the logarithm of the sum of their
// exponentials: no copy in float32, no log-softmax. Backward writes their gradient over them where
// nobody else holds them any more (Note [Logits that are the loss's alone] in the source).
//
// Legend: N tokens, V vocabulary, v this rank's slice of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace am::nn::fused {

// Of each row, in float32 (float64 for float64).
struct LogitSums {
  at::Tensor maximum_N;
  at::Tensor exponentials_N;  // the sum of e^(logit - maximum)
  at::Tensor label_N;         // the label's logit; 0 where it is in another slice
};

struct LabelRange {
  int64_t first = 0;  // the label of column 0
  int64_t ignored = -100;
};

// Sums of this slice to sums of the whole vocabulary, in place.
using CombineSums = std::function<void(LogitSums& sums)>;

// The sum of cross-entropies over the tokens whose label is not range.ignored; logits_..v, labels
// .. (int64, of the whole vocabulary). The result has no dims and the sums' dtype. Without
// `combine` v is the vocabulary, and a label outside it throws Error(kUsage) (nn/token_check.h);
// who cuts the vocabulary checks before.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             const LabelRange& range, const CombineSums& combine = {});

}  // namespace am::nn::fused
