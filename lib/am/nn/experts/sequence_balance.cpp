#include "am/nn/experts/sequence_balance.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace am::nn {

namespace {

using Score = model::RouterSpec::Score;

// Returns of_NE as [B, t, E], with t tokens per sequence, without the padding at the end of each
// sequence.
at::Tensor by_sequence(const at::Tensor& of_NE, int64_t sequences, int64_t padding = 0) {
  const at::Tensor of_BtE = of_NE.view({sequences, -1, of_NE.size(1)});
  return of_BtE.narrow(1, 0, of_BtE.size(1) - padding);
}

// Returns the gradient of the scores, computed from the gradient of the shares (shares_of_scores).
at::Tensor of_scores(const at::Tensor& of_shares_NE, const at::Tensor& scores_NE, Score score) {
  if (score == Score::kSoftmax) return of_shares_NE;
  const at::Tensor shares_NE = shares_of_scores(scores_NE, score);
  if (score == Score::kSoftmaxOfTaken) {
    return at::_softmax_backward_data(of_shares_NE, shares_NE, -1, scores_NE.scalar_type());
  }
  const at::Tensor along_N1 = (of_shares_NE * shares_NE).sum(-1, /*keepdim=*/true);
  return (of_shares_NE - along_N1) / scores_NE.sum(-1, /*keepdim=*/true);
}

}  // namespace

at::Tensor shares_of_scores(const at::Tensor& scores_NE, Score score) {
  switch (score) {
    case Score::kSigmoid:
      return scores_NE / scores_NE.sum(-1, /*keepdim=*/true);
    case Score::kSoftmaxOfTaken:
      return scores_NE.softmax(-1);
    case Score::kSoftmax:
      break;
  }
  return scores_NE;
}

at::Tensor counts_of_sequences(const at::Tensor& ids_Nk, int64_t sequences, int64_t experts,
                               const at::TensorOptions& options, int64_t padding) {
  const at::Tensor ids_Bx = by_sequence(ids_Nk, sequences, padding).flatten(1);
  return at::zeros({sequences, experts}, options)
      .scatter_add_(1, ids_Bx, at::ones({1, 1}, options).expand(ids_Bx.sizes()));
}

// Each of a sequence's T tokens counts for k experts, so choices_B1 is k T.
at::Tensor sequence_weights(const at::Tensor& counts_BE, int64_t top_k) {
  const at::Tensor choices_B1 = counts_BE.sum(1, /*keepdim=*/true);
  const auto experts = static_cast<double>(counts_BE.size(1));
  return (counts_BE / choices_B1).mul_(experts * static_cast<double>(top_k)).div_(choices_B1);
}

at::Tensor sequence_loss(const at::Tensor& scores_NE, const at::Tensor& weights_BE, Score score,
                         int64_t padding) {
  const at::NoGradGuard no_grad;
  const at::Tensor shares_BE =
      by_sequence(shares_of_scores(scores_NE, score), weights_BE.size(0), padding).sum(1);
  return at::mul(weights_BE, shares_BE).sum(at::kDouble).view({1});
}

at::Tensor sequence_loss_gradient(const at::Tensor& scores_NE, const at::Tensor& weights_BE,
                                  Score score, int64_t padding) {
  const at::NoGradGuard no_grad;
  const int64_t sequences = weights_BE.size(0);
  at::Tensor of_shares_BtE = weights_BE.unsqueeze(1).expand_as(by_sequence(scores_NE, sequences));
  if (padding > 0) {
    of_shares_BtE = of_shares_BtE.clone();
    of_shares_BtE.narrow(1, of_shares_BtE.size(1) - padding, padding).zero_();
  }
  return of_scores(of_shares_BtE.reshape_as(scores_NE), scores_NE, score);
}

}  // namespace am::nn
