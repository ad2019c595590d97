// Auxiliary loss that balances experts within each sequence (DeepSeek-V3, 2024):
//
//   sum over sequences and experts of f_bi P_bi
//   f_bi = E / (k T) * number of the sequence's T tokens routed to expert i     (no gradient)
//   P_bi = mean over all T tokens of expert i's share of the token's scores
//
// Each sequence has its own loss, so that the sum over the global batch does not depend on layout,
// gradient accumulation or micro-batch size. Ranks that share a sequence each compute a part of its
// loss and exchange only the counts. The last `padding` tokens of each local sequence are padding
// and are excluded everywhere. Legend: B sequences, N local tokens (equally many per sequence), E
// experts, k experts per token.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"

namespace am::nn {

// Returns, for each token, each expert's share of the sum of the token's scores: sigmoid(logits)
// divided by its sum over all experts, or softmax(logits). `scores_NE` are the router's scores; if
// the router's softmax runs over the chosen experts only, they are the logits.
at::Tensor shares_of_scores(const at::Tensor& scores_NE, model::RouterSpec::Score score);

// Returns how many local tokens of each sequence are routed to each expert: [B, E], in the dtype of
// the scores.
at::Tensor counts_of_sequences(const at::Tensor& ids_Nk, int64_t sequences, int64_t experts,
                               const at::TensorOptions& options, int64_t padding = 0);
// Returns f_BE / T, by which sequence_loss() multiplies the tokens' shares. Counts must be summed
// over all ranks with tokens of the sequences.
at::Tensor sequence_weights(const at::Tensor& counts_BE, int64_t top_k);

// Returns the auxiliary loss of the local tokens: [1], float64.
at::Tensor sequence_loss(const at::Tensor& scores_NE, const at::Tensor& weights_BE,
                         model::RouterSpec::Score score, int64_t padding = 0);
// Returns the gradient of sequence_loss with respect to the scores.
at::Tensor sequence_loss_gradient(const at::Tensor& scores_NE, const at::Tensor& weights_BE,
                                  model::RouterSpec::Score score, int64_t padding = 0);

}  // namespace am::nn
