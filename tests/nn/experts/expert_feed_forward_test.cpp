// Compares a feed-forward of experts with its definition: for each token, a weighted sum over the
// token's experts.
#include "am/nn/experts/expert_feed_forward.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>

#include "support/repeated_rows.h"

namespace am::nn {
namespace {

constexpr int64_t kHidden = 6, kInner = 5, kChoices = 4, kEach = 2;

class Built {
 public:
  explicit Built(bool shared) {
    layer.router = {linear("gate", kChoices, kHidden), {.experts = kChoices, .top_k = kEach}};
    layer.router.spec.normalise = true;
    for (int64_t e = 0; e < kChoices; ++e) layer.experts.push_back(expert(std::to_string(e)));
    if (!shared) return;
    layer.shared = expert("shared");
    layer.shared_weigher = linear("weigher", 1, kHidden);
  }

  at::Tensor run(const at::Tensor& x) const {
    RecomputeTape products;
    return layer.finish(layer.product(x, /*keeps_gate=*/true, /*leaves=*/true, products),
                        x.size(1));
  }
  // Returns the output by the definition, token by token.
  at::Tensor defined(const at::Tensor& x_BTD) const {
    const at::Tensor x = x_BTD.reshape({-1, kHidden});
    const at::Tensor scores = at::linear(x, layer.router.gate.weight->value).softmax(-1);
    std::vector<at::Tensor> out;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const at::Tensor ids = std::get<1>(scores[t].topk(kEach));
      at::Tensor sum = at::zeros({kHidden}, x.options());
      for (int64_t j = 0; j < kEach; ++j) {
        const auto e = ids[j].item<int64_t>();
        const at::Tensor weight = scores[t][e] / scores[t].index_select(0, ids).sum();
        sum = sum + weight * through(layer.experts[static_cast<size_t>(e)], x[t]);
      }
      if (layer.shared) {
        const at::Tensor share = at::sigmoid(at::linear(x[t], weigher()));
        sum = sum + share * through(*layer.shared, x[t]);
      }
      out.push_back(sum);
    }
    return at::stack(out).view_as(x_BTD);
  }
  std::map<std::string, at::Tensor> gradients_of(const at::Tensor& out, const at::Tensor& pull,
                                                 const at::Tensor& x) {
    x.mutable_grad().reset();
    for (Linear* each : layer.linears()) each->weight->value.mutable_grad().reset();
    out.backward(pull);
    std::map<std::string, at::Tensor> gradients = {{"x", x.grad().clone()}};
    for (Linear* each : layer.linears()) {
      const at::Tensor gradient = each->weight->value.grad();
      gradients[each->name] = gradient.defined() ? gradient.clone() : at::Tensor();
    }
    return gradients;
  }

  ExpertFeedForward layer;

 private:
  static Linear linear(const std::string& name, int64_t out, int64_t in) {
    Linear made;
    made.name = name;
    made.weight = std::make_shared<Parameter>(
        Parameter{name, at::randn({out, in}, at::kDouble).set_requires_grad(true)});
    return made;
  }
  static Expert expert(const std::string& name) {
    return {linear(name + ".gate", kInner, kHidden), linear(name + ".up", kInner, kHidden),
            linear(name + ".down", kHidden, kInner)};
  }
  static at::Tensor through(const Expert& expert, const at::Tensor& x) {
    const at::Tensor gate = at::linear(x, expert.gate_proj.weight->value);
    return at::linear(at::silu(gate) * at::linear(x, expert.up_proj.weight->value),
                      expert.down_proj.weight->value);
  }
  const at::Tensor& weigher() const { return layer.shared_weigher->weight->value; }
};

void compare(Built& built, const at::Tensor& x, int64_t times = 1) {
  const at::Tensor out = built.run(x), wanted = built.defined(x) * times;
  CHECK(at::allclose(out, wanted, 1e-11, 1e-12));
  const at::Tensor pull = at::randn_like(wanted);
  const auto got = built.gradients_of(out, pull, x), right = built.gradients_of(wanted, pull, x);
  for (const auto& [name, gradient] : right) {
    INFO(name);
    REQUIRE(got.at(name).defined());
    if (gradient.defined()) {
      CHECK(at::allclose(got.at(name), gradient, 1e-10, 1e-11));
    } else {
      CHECK(at::count_nonzero(got.at(name)).item<int64_t>() == 0);
    }
  }
}

at::Tensor input() { return at::randn({2, 7, kHidden}, at::kDouble).set_requires_grad(true); }

}  // namespace

TEST_CASE("experts compute the sum that defines them, and its gradients") {
  at::manual_seed(11);
  Built built(GENERATE(false, true));
  compare(built, input());
}

TEST_CASE("all tokens may take the same experts; the others' gradients are zeros") {
  at::manual_seed(12);
  Built built(false);
  {
    const at::NoGradGuard no_grad;
    at::Tensor& gate = built.layer.router.gate.weight->value;
    gate.zero_();
    gate[2].fill_(3.0);
    gate[0].fill_(2.0);
  }
  at::Tensor x = input();
  {
    const at::NoGradGuard no_grad;
    x.abs_();
  }
  compare(built, x);
  built.layer.counts.clear();
  built.run(x);
  CHECK(built.layer.counts == std::vector<int64_t>{14, 0, 14, 0});
}

TEST_CASE("rows that are far more than even routing gives compute the same in parts") {
  at::manual_seed(14);
  Built built(false);
  built.layer.dispatcher = std::make_shared<const test::RepeatedRows>(5);
  const at::Tensor x = input();
  compare(built, x, 5);
  // Activation checkpointing, which recomputes the layer in backward, does not change the
  // gradients.
  const at::Tensor pull = at::randn({2, 7, kHidden}, at::kDouble);
  const auto wanted = built.gradients_of(built.run(x), pull, x);
  const at::Tensor out = checkpoint(
      [&](const Tensors& in, RecomputeTape& products) -> Tensors {
        return built.layer.product(in[0], /*keeps_gate=*/false, /*leaves=*/true, products);
      },
      {x}, /*trains=*/true)[0];
  for (const auto& [name, gradient] : built.gradients_of(out, pull, x)) {
    INFO(name);
    CHECK(at::equal(gradient, wanted.at(name)));
  }
}

TEST_CASE("a segment's second run takes the first one's experts, and counts none") {
  at::manual_seed(13);
  Built built(true);
  const at::Tensor x = input(), pull = at::randn({2, 7, kHidden}, at::kDouble);
  const auto wanted = built.gradients_of(built.run(x), pull, x);
  built.layer.counts.clear();
  const bool keeps_gate = GENERATE(false, true);
  const at::Tensor out = checkpoint(
      [&](const Tensors& in, RecomputeTape& products) -> Tensors {
        return built.layer.product(in[0], keeps_gate, /*leaves=*/true, products);
      },
      {x}, /*trains=*/true)[0];
  const auto counted = built.layer.counts;
  const auto got = built.gradients_of(out, pull, x);
  CHECK(built.layer.counts == counted);
  for (const auto& [name, gradient] : wanted) {
    INFO(name);
    CHECK(at::equal(got.at(name), gradient));
  }
}

// Experts 0 and 1 have equal scores, and the router chooses one of them. Before backward, the test
// raises the other expert's score. A second choice would then select the other expert.
TEST_CASE("a segment's second run does not choose again") {
  at::manual_seed(14);
  Built built(false);
  at::Tensor gate = built.layer.router.gate.weight->value.variable_data();
  gate.zero_();
  gate[3].fill_(5.0);
  gate[0].fill_(1.0);
  gate[1].fill_(1.0);
  gate[2].fill_(-1.0);
  const at::Tensor x = input(), pull = at::randn({2, 7, kHidden}, at::kDouble);
  x.variable_data().abs_();
  built.layer.counts.clear();
  const auto wanted = built.gradients_of(built.run(x), pull, x);
  const int64_t other = built.layer.counts[0] > 0 ? 1 : 0;
  REQUIRE(built.layer.counts[static_cast<size_t>(other)] == 0);
  const at::Tensor out = checkpoint(
      [&](const Tensors& in, RecomputeTape& products) -> Tensors {
        return built.layer.product(in[0], /*keeps_gate=*/false, /*leaves=*/true, products);
      },
      {x}, /*trains=*/true)[0];
  gate[other].add_(1e-12);
  const auto got = built.gradients_of(out, pull, x);
  for (const auto& [name, gradient] : wanted) {
    INFO(name);
    CHECK(at::allclose(got.at(name), gradient, 1e-9, 1e-9));
  }
}

}  // namespace am::nn
