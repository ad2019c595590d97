// Compares a router's scores, choices and weights with those of composites of ATen's operators.
#include "am/nn/experts/router.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <optional>
#include <tuple>

#include "am/nn/autocast.h"

namespace am::nn {
namespace {

using Score = model::RouterSpec::Score;

Linear gate_of(const at::Tensor& weight, const at::Tensor& bias = {}) {
  Linear gate;
  gate.weight = std::make_shared<Parameter>(Parameter{"gate.weight", weight});
  if (bias.defined()) gate.bias = std::make_shared<Parameter>(Parameter{"gate.bias", bias});
  return gate;
}

at::Tensor composite(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& ids, const model::RouterSpec& spec) {
  at::Tensor logits = at::linear(x, weight);
  if (bias.defined()) logits = logits + bias;
  if (spec.score == Score::kSoftmaxOfTaken) return logits.gather(-1, ids).softmax(-1) * spec.scale;
  const at::Tensor scores =
      spec.score == Score::kSoftmax ? logits.softmax(-1) : at::sigmoid(logits);
  at::Tensor taken = scores.gather(-1, ids);
  if (spec.normalise) taken = taken / (taken.sum(-1, true) + spec.normalise_eps);
  return taken * spec.scale;
}

}  // namespace

TEST_CASE("a router weighs and learns as ATen's operators do") {
  at::manual_seed(7);
  const Score score = GENERATE(Score::kSoftmax, Score::kSigmoid, Score::kSoftmaxOfTaken);
  const bool normalise = GENERATE(false, true);
  const bool biased = GENERATE(false, true);
  const double scale = GENERATE(1.0, 2.5);
  const auto options = at::TensorOptions(at::kDouble);
  const auto made = [&](at::IntArrayRef shape) {
    return at::randn(shape, options).set_requires_grad(true);
  };
  const at::Tensor x = made({9, 8}), weight = made({6, 8});
  const at::Tensor bias = biased ? made({6}) : at::Tensor();
  model::RouterSpec spec{.experts = 6, .top_k = 3, .score = score};
  spec.normalise = normalise;
  spec.normalise_eps = 1e-3;
  spec.scale = scale;
  const Router router{gate_of(weight, bias), spec};
  const Routing routing = router(x);
  // Every score function increases with the logits, so top-k of the logits chooses the same
  // experts.
  at::Tensor logits = at::linear(x, weight);
  if (biased) logits = logits + bias;
  CHECK(at::equal(routing.ids_Nk, std::get<1>(logits.topk(3, -1))));
  const at::Tensor wanted = composite(x, weight, bias, routing.ids_Nk, spec);
  CHECK(at::allclose(routing.weights_Nk, wanted, 1e-12, 1e-14));
  const at::Tensor pull = at::randn_like(wanted);
  const auto gradients_of = [&](const at::Tensor& of) {
    for (const at::Tensor& each : {x, weight, bias}) {
      if (each.defined()) each.mutable_grad().reset();
    }
    (of * pull).sum().backward();
    std::vector<at::Tensor> all = {x.grad().clone(), weight.grad().clone()};
    if (biased) all.push_back(bias.grad().clone());
    return all;
  };
  const auto got = gradients_of(routing.weights_Nk), right = gradients_of(wanted);
  for (size_t i = 0; i < right.size(); ++i) CHECK(at::allclose(got[i], right[i], 1e-10, 1e-12));
}

TEST_CASE("an expert that always has all the weight teaches the router nothing") {
  at::manual_seed(9);
  const at::Tensor x = at::randn({500, 8}), weight = at::randn({6, 8}).set_requires_grad(true);
  model::RouterSpec spec{.experts = 6, .top_k = 1};
  spec.normalise = true;
  const Routing routing = Router{gate_of(weight), spec}(x);
  CHECK(at::equal(routing.weights_Nk, at::ones({500, 1})));
  (routing.weights_Nk * at::randn({500, 1})).sum().backward();
  CHECK(at::equal(weight.grad(), at::zeros({6, 8})));  // exactly 0, without rounding errors
}

TEST_CASE("a correction bias changes which experts are chosen, and not their weights") {
  at::manual_seed(10);
  const Score score = GENERATE(Score::kSoftmax, Score::kSigmoid);
  const bool is_row = GENERATE(false, true);  // shape [1, 6] instead of [6]
  const at::Tensor x = at::randn({64, 8}, at::kDouble), weight = at::randn({6, 8}, at::kDouble);
  const at::Tensor correction = at::randn({6}, at::kDouble);
  Router router{gate_of(weight), {.experts = 6, .top_k = 2, .score = score}};
  router.correction = std::make_shared<Parameter>(
      Parameter{"correction", is_row ? correction.view({1, 6}) : correction});
  const Routing routing = router(x);
  const at::Tensor logits = at::linear(x, weight);
  const at::Tensor scores = score == Score::kSoftmax ? logits.softmax(-1) : logits.sigmoid();
  const at::Tensor ids = std::get<1>((scores + correction).topk(2, -1));
  CHECK_FALSE(at::equal(ids, std::get<1>(scores.topk(2, -1))));
  CHECK(at::equal(routing.ids_Nk, ids));
  CHECK(at::allclose(routing.weights_Nk, scores.gather(-1, ids)));
}

TEST_CASE("a router given a choice weighs that one") {
  at::manual_seed(8);
  const at::Tensor x = at::randn({5, 4}), weight = at::randn({6, 4});
  const Router router{gate_of(weight), {.experts = 6, .top_k = 2}};
  const at::Tensor ids = at::tensor({0, 5, 1, 2, 3, 4, 5, 0, 2, 1}, at::kLong).view({5, 2});
  const Routing routing = router(x, {}, {.ids_Nk = ids});
  CHECK(routing.ids_Nk.is_same(ids));
  CHECK(at::allclose(routing.weights_Nk, at::linear(x, weight).softmax(-1).gather(-1, ids)));
}

TEST_CASE("a router computes in float32 from bfloat16, and under autocast") {
  at::manual_seed(9);
  const at::Tensor x = at::randn({32, 16}), weight = at::randn({8, 16});
  const model::RouterSpec spec = {.experts = 8, .top_k = 2};
  const at::Tensor wanted = std::get<0>(
      at::linear(x.to(at::kBFloat16).to(at::kFloat), weight.to(at::kBFloat16).to(at::kFloat))
          .softmax(-1)
          .topk(2, -1));
  const Routing narrow = Router{gate_of(weight.to(at::kBFloat16)), spec}(x.to(at::kBFloat16));
  CHECK(narrow.weights_Nk.scalar_type() == at::kFloat);
  CHECK(at::allclose(narrow.weights_Nk, wanted, 1e-6, 1e-7));
  const Router router{gate_of(weight), spec};
  const Routing plain = router(x);
  const AutocastScope scope({at::kCPU, at::kBFloat16});
  CHECK(at::equal(router(x).weights_Nk, plain.weights_Nk));
}

}  // namespace am::nn
