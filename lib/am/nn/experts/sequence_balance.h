// The auxiliary loss that keeps experts evenly taken within each sequence (DeepSeek-V3, 2024):
//
//   sum over sequences and experts of f_bi P_bi
//   f_bi = E / (k T) * how many of the sequence's T tokens took expert i     (no gradient)
//   P_bi = mean over those tokens of expert i's share in the token's scores
//
// Each sequence's is its own, so that no layout, accumulation or cut into micro-batches changes
// the sum. Legend: B sequences, N = B T tokens, E experts, k of them taken by each token.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"

namespace am::nn {

// sigmoid(logits) by a token's sum of them, softmax(logits) else. `scores` as the router has them:
// logits where the softmax is over the taken ones.
at::Tensor shares_of_scores(const at::Tensor& scores_NE, model::RouterSpec::Score score);

// [1], float64.
at::Tensor sequence_loss(const at::Tensor& scores_NE, const at::Tensor& ids_Nk,
                         model::RouterSpec::Score score, int64_t sequences);
// Of the scores.
at::Tensor sequence_loss_gradient(const at::Tensor& scores_NE, const at::Tensor& ids_Nk,
                                  model::RouterSpec::Score score, int64_t sequences);

}  // namespace am::nn
