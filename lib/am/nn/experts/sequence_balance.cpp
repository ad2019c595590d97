#include "am/nn/experts/sequence_balance.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace am::nn {

namespace {

using Score = model::RouterSpec::Score;

// f_BE
at::Tensor frequencies(const at::Tensor& scores_NE, const at::Tensor& ids_Nk, int64_t sequences) {
  const int64_t experts = scores_NE.size(1);
  const at::Tensor ids_Bx = ids_Nk.reshape({sequences, -1});
  const auto options = scores_NE.options();
  const at::Tensor counts_BE =
      at::zeros({sequences, experts}, options)
          .scatter_add_(1, ids_Bx, at::ones({1, 1}, options).expand(ids_Bx.sizes()));
  return counts_BE.mul_(static_cast<double>(experts) / static_cast<double>(ids_Bx.size(1)));
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

at::Tensor sequence_loss(const at::Tensor& scores_NE, const at::Tensor& ids_Nk, Score score,
                         int64_t sequences) {
  const at::NoGradGuard no_grad;
  const at::Tensor mean_BE =
      shares_of_scores(scores_NE, score).view({sequences, -1, scores_NE.size(1)}).mean(1);
  const at::Tensor f_BE = frequencies(scores_NE, ids_Nk, sequences);
  return at::mul(f_BE, mean_BE).sum(at::kDouble).view({1});
}

at::Tensor sequence_loss_gradient(const at::Tensor& scores_NE, const at::Tensor& ids_Nk,
                                  Score score, int64_t sequences) {
  const at::NoGradGuard no_grad;
  const int64_t length = scores_NE.size(0) / sequences;
  at::Tensor of_shares_NE = frequencies(scores_NE, ids_Nk, sequences)
                                .div_(static_cast<double>(length))
                                .unsqueeze(1)
                                .expand({sequences, length, scores_NE.size(1)})
                                .reshape_as(scores_NE);
  if (score == Score::kSoftmax) return of_shares_NE;
  const at::Tensor shares_NE = shares_of_scores(scores_NE, score);
  if (score == Score::kSoftmaxOfTaken) {
    return at::_softmax_backward_data(of_shares_NE, shares_NE, -1, scores_NE.scalar_type());
  }
  const at::Tensor along_N1 = (of_shares_NE * shares_NE).sum(-1, /*keepdim=*/true);
  return (of_shares_NE - along_N1) / scores_NE.sum(-1, /*keepdim=*/true);
}

}  // namespace am::nn
