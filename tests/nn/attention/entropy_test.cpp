#include "am/nn/attention/entropy.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

namespace am {
namespace {

// Returns the entropy of the attention probabilities of query t of head h in sequence b. The query
// sees the keys that the window and the documents of `params` allow, and the sink, if there is one.
double of_query(const nn::Qkv& heads, const nn::AttentionParams& params, int64_t b, int64_t h,
                int64_t t, const std::optional<at::Tensor>& sinks_H) {
  const int64_t group = h * heads.k_BGsK.size(1) / heads.q_BHtK.size(1);
  std::vector<double> scores;
  for (int64_t key = 0; key <= t; ++key) {
    if (params.window > 0 && key <= t - params.window) continue;
    const at::Tensor& document = params.document_BT;
    if (document.defined() && document[b][key].item<int64_t>() != document[b][t].item<int64_t>()) {
      continue;
    }
    double score = heads.q_BHtK[b][h][t].dot(heads.k_BGsK[b][group][key]).item<double>();
    score *= params.scale;
    if (params.softcap) score = *params.softcap * std::tanh(score / *params.softcap);
    scores.push_back(score);
  }
  if (sinks_H) scores.push_back((*sinks_H)[h].item<double>());
  double sum = 0.0, entropy = 0.0;
  for (const double score : scores) sum += std::exp(score);
  for (const double score : scores) entropy -= std::exp(score) / sum * (score - std::log(sum));
  return entropy;
}

TEST_CASE("the entropy of attention is that of each query's probabilities") {
  const int64_t batch = 2, count = 4, length = 9;
  const auto options = at::TensorOptions(at::kDouble);
  const nn::Qkv heads = {at::randn({batch, count, length, 6}, options),
                         at::randn({batch, 2, length, 6}, options),
                         at::randn({batch, 2, length, 3}, options)};
  const at::Tensor documents = at::tensor({0, 0, 0, 0, 1, 1, 1, 2, 2,  //
                                           0, 1, 1, 1, 1, 1, 1, 1, 1})
                                   .view({batch, length})
                                   .to(at::kLong);
  const std::optional<at::Tensor> sinks = at::randn({count}, options);
  const nn::AttentionParams plain = {.scale = 0.7};
  const nn::AttentionParams all = {
      .scale = 0.7, .softcap = 2.0, .window = 3, .document_BT = documents};
  for (const nn::AttentionParams& params : {plain, all}) {
    for (const auto& sink : {std::optional<at::Tensor>(), sinks}) {
      const at::Tensor entropy = nn::attention_entropy(heads, params, sink);
      REQUIRE(entropy.sizes().vec() == std::vector<int64_t>{batch, count, length});
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t h = 0; h < count; ++h) {
          for (int64_t t = 0; t < length; ++t) {
            CHECK(entropy[b][h][t].item<double>() ==
                  Approx(of_query(heads, params, b, h, t, sink)).margin(1e-12));
          }
        }
      }
    }
  }
}

TEST_CASE("NaN in queries stays visible in the entropy") {
  at::Tensor q = at::zeros({1, 1, 4, 2});
  q[0][0][2] = std::nan("");
  const at::Tensor entropy =
      nn::attention_entropy({q, at::ones({1, 1, 4, 2}), at::ones({1, 1, 4, 2})}, {});
  CHECK(entropy[0][0][3].item<float>() == Approx(std::log(4.0)));
  CHECK(std::isnan(entropy[0][0][2].item<float>()));
}

}  // namespace
}  // namespace am
