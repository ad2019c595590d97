// Auxiliary loss that balances experts within each sequence (DeepSeek-V3, 2024):
//
//   sum over sequences b and experts i of f_bi P_bi
//   f_bi = E / (k T) * number of the sequence's T tokens routed to expert i     (no gradient)
//   P_bi = mean over all T tokens of expert i's share of the token's scores
//
// Each sequence has its own loss, so that the sum over the global batch does not depend on layout,
// gradient accumulation or micro-batch size. Ranks that share a sequence exchange only the
// sequence's counts: each rank computes the part of the loss for its own tokens. The last `padding`
// tokens of each local sequence are padding, which T, counts and loss exclude. Legend: B sequences,
// N local tokens (equally many per sequence), E experts, k experts per token.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"

namespace am::nn {

// Returns, for each token, each expert's share of the sum of the token's scores: sigmoid(logits)
// divided by its sum over all experts, or softmax(logits). `scores_NE` are the router's scores. For
// a router whose softmax runs over the chosen experts only, `scores_NE` are the logits.
at::Tensor shares_of_scores(const at::Tensor& scores_NE, model::RouterSpec::Score score);

// Returns the number of local tokens of each sequence that are routed to each expert: [B, E], in
// the dtype and on the device of `options`. `sequences` is B.
at::Tensor counts_of_sequences(const at::Tensor& ids_Nk, int64_t sequences, int64_t experts,
                               const at::TensorOptions& options, int64_t padding = 0);
// Returns f_BE / T, by which sequence_loss() multiplies the tokens' shares. `counts_BE` must be
// summed over all ranks with tokens of the sequences.
at::Tensor sequence_weights(const at::Tensor& counts_BE, int64_t top_k);

// Returns the auxiliary loss of the local tokens: [1], float64.
at::Tensor sequence_loss(const at::Tensor& scores_NE, const at::Tensor& weights_BE,
                         model::RouterSpec::Score score, int64_t padding = 0);
// Returns the gradient of sequence_loss with respect to the scores.
at::Tensor sequence_loss_gradient(const at::Tensor& scores_NE, const at::Tensor& weights_BE,
                                  model::RouterSpec::Score score, int64_t padding = 0);

}  // namespace am::nn
