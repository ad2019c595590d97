#include "am/nn/attention/entropy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace am::nn {
namespace {

// Largest number of scores that are computed at a time, for a range of query positions in all
// sequences and heads. A range contains at least one position, even if that position has more
// scores.
constexpr int64_t kScores = int64_t{1} << 24;

// Returns a mask [t, T], or [B, 1, t, T] with documents, where t is `count` and T is `length`.
// Element [i, j] is true if query `first` + i does not see key j.
at::Tensor hidden_keys(const AttentionParams& params, int64_t first, int64_t count, int64_t length,
                       c10::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  const at::Tensor query_t1 = at::arange(first, first + count, options).unsqueeze(1);
  const at::Tensor key_T = at::arange(length, options);
  at::Tensor hidden = key_T.gt(query_t1);
  if (params.window > 0) hidden = hidden.logical_or(key_T.le(query_t1 - params.window));
  if (!params.document_BT.defined()) return hidden;
  const at::Tensor document_BT = params.document_BT.to(device);
  const at::Tensor other_BtT =
      document_BT.narrow(1, first, count).unsqueeze(2).ne(document_BT.unsqueeze(1));
  return hidden.logical_or(other_BtT.unsqueeze(1));
}

}  // namespace

at::Tensor attention_entropy(const Qkv& heads, const AttentionParams& params,
                             const std::optional<at::Tensor>& sinks_H) {
  const at::NoGradGuard no_grad;
  const auto dtype = heads.q_BHtK.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor q_BHTK = heads.q_BHtK.to(dtype);
  const int64_t batch = q_BHTK.size(0), count = q_BHTK.size(1), length = q_BHTK.size(2);
  const at::Tensor k_BHKT =
      heads.k_BGsK.to(dtype).repeat_interleave(count / heads.k_BGsK.size(1), 1).transpose(2, 3);
  const int64_t rows = std::clamp<int64_t>(kScores / (batch * count * length), 1, length);
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < length; first += rows) {
    const int64_t own = std::min(rows, length - first);
    at::Tensor scores_BHtT = at::matmul(q_BHTK.narrow(2, first, own), k_BHKT) * params.scale;
    if (params.softcap) scores_BHtT = (scores_BHtT / *params.softcap).tanh() * *params.softcap;
    if (!params.slopes.empty()) {
      const auto options = q_BHTK.options();
      const at::Tensor ahead_tT =
          at::arange(length, options) - at::arange(first, first + own, options).unsqueeze(1);
      scores_BHtT += at::tensor(params.slopes, options).view({-1, 1, 1}) * ahead_tT;
    }
    scores_BHtT.masked_fill_(hidden_keys(params, first, own, length, q_BHTK.device()),
                             -std::numeric_limits<double>::infinity());
    if (sinks_H) {
      const at::Tensor sinks = sinks_H->to(dtype).view({1, count, 1, 1});
      scores_BHtT = at::cat({scores_BHtT, sinks.expand({batch, count, own, 1})}, -1);
    }
    const at::Tensor logs = scores_BHtT.log_softmax(-1);
    // A key that the query does not see has probability 0 and the logarithm -inf, which
    // nan_to_num() replaces by 0: the key adds 0 to the sum.
    parts.push_back(
        (logs.exp() * logs.nan_to_num(std::numeric_limits<double>::quiet_NaN(), 0.0, 0.0))
            .sum(-1)
            .neg());
  }
  return at::cat(parts, 2);
}

}  // namespace am::nn
