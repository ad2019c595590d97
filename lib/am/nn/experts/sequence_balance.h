// The auxiliary loss that keeps experts evenly taken within each sequence (DeepSeek-V3, 2024):
//
//   sum over sequences and experts of f_bi P_bi
//   f_bi = E / (k T) * how many of the sequence's T tokens took expert i     (no gradient)
//   P_bi = mean over those tokens of expert i's share in the token's scores
//
// Each sequence's is its own, so that no layout, accumulation or cut into micro-batches changes
// the sum. Of a sequence whose tokens lie on several ranks each has a part of the sum; what they
// tell each other are the counts. The last `padding` tokens of each sequence here stand for
// nothing, and have no part in any of it. Legend: B sequences, N tokens of them here, the same
// number of each, E experts, k of them taken by each token.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"

namespace am::nn {

// sigmoid(logits) by a token's sum of them, softmax(logits) else. `scores` as the router has them:
// logits where the softmax is over the taken ones.
at::Tensor shares_of_scores(const at::Tensor& scores_NE, model::RouterSpec::Score score);

// How many tokens of each sequence took each expert, here: [B, E], in the dtype of the scores.
at::Tensor counts_of_sequences(const at::Tensor& ids_Nk, int64_t sequences, int64_t experts,
                               const at::TensorOptions& options, int64_t padding = 0);
// f_BE / T, with which a token's shares enter the sum; of counts over all ranks that have tokens of
// the sequences.
at::Tensor sequence_weights(const at::Tensor& counts_BE, int64_t taken);

// Of the tokens here: [1], float64.
at::Tensor sequence_loss(const at::Tensor& scores_NE, const at::Tensor& weights_BE,
                         model::RouterSpec::Score score, int64_t padding = 0);
// Of the scores.
at::Tensor sequence_loss_gradient(const at::Tensor& scores_NE, const at::Tensor& weights_BE,
                                  model::RouterSpec::Score score, int64_t padding = 0);

}  // namespace am::nn
