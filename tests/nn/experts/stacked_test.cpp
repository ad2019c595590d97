// Compares experts that are stacked in one tensor with the definition of experts: for each token, a
// weighted sum over the token's experts.
#include "am/nn/experts/stacked.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <tuple>

#include "am/nn/checkpoint.h"
#include "am/nn/experts/expert_feed_forward.h"
#include "support/repeated_rows.h"

namespace am::nn::stacked {
namespace {

constexpr int64_t kHidden = 6, kInner = 5, kChoices = 4, kEach = 2;
constexpr double kAlpha = 1.3, kLimit = 0.7;

at::Tensor random(at::IntArrayRef shape) {
  return at::randn(shape, at::kDouble).set_requires_grad(true);
}

// Returns a linear layer with random values. `weight` and `bias` are shapes. If `bias` is empty,
// the layer has no bias.
Linear linear(const std::string& name, at::IntArrayRef weight, at::IntArrayRef bias = {}) {
  Linear made;
  made.name = name;
  made.weight = std::make_shared<Parameter>(Parameter{name, random(weight)});
  if (!bias.empty()) {
    made.bias = std::make_shared<Parameter>(Parameter{name + "_bias", random(bias)});
  }
  return made;
}

class Built {
 public:
  // Makes the experts of gpt-oss or, with `granite`, of Granite MoE. Granite's matrices have the
  // shape [experts, out, in] and no biases. In gate_up, the rows of gate precede the rows of up.
  explicit Built(bool granite = false) : is_granite(granite) {
    layer.router = {linear("router", {kChoices, kHidden}, {kChoices}),
                    {.experts = kChoices, .top_k = kEach}};
    layer.router.spec.score = model::RouterSpec::Score::kSoftmaxOfTaken;
    if (is_granite) {
      layer.stacked = StackedExperts{linear("gate_up", {kChoices, 2 * kInner, kHidden}),
                                     linear("down", {kChoices, kHidden, kInner}),
                                     {},
                                     model::Activation::kSilu};
      return;
    }
    layer.stacked =
        StackedExperts{linear("gate_up", {kChoices, kHidden, 2 * kInner}, {kChoices, 2 * kInner}),
                       linear("down", {kChoices, kInner, kHidden}, {kChoices, kHidden}),
                       {kAlpha, kLimit}};
    layer.stacked->gate_up.in_out = layer.stacked->down.in_out = true;
  }

  at::Tensor run(const at::Tensor& x) const {
    RecomputeTape products;
    return layer.finish(layer.product(x, /*keeps_gate=*/true, /*leaves=*/true, products),
                        x.size(1));
  }
  // Returns the output by the definition, token by token.
  at::Tensor defined(const at::Tensor& x_BTD) const {
    const at::Tensor x = x_BTD.reshape({-1, kHidden});
    const at::Tensor logits =
        at::linear(x, layer.router.gate.weight->value, layer.router.gate.bias->value);
    std::vector<at::Tensor> out;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const auto [best, ids] = logits[t].topk(kEach);
      const at::Tensor weights = best.softmax(-1);
      at::Tensor sum = at::zeros({kHidden}, x.options());
      for (int64_t j = 0; j < kEach; ++j) {
        sum = sum + weights[j] * through(ids[j].item<int64_t>(), x[t]);
      }
      out.push_back(sum);
    }
    return at::stack(out).view_as(x_BTD);
  }

  std::map<std::string, at::Tensor> gradients_of(const at::Tensor& out, const at::Tensor& pull,
                                                 const at::Tensor& x) {
    std::map<std::string, at::Tensor> of = {{"x", x}};
    for (Linear* each : layer.linears()) {
      of[each->weight->name] = each->weight->value;
      if (each->bias) of[each->bias->name] = each->bias->value;
    }
    for (auto& [name, value] : of) value.mutable_grad().reset();
    out.backward(pull);
    for (auto& [name, value] : of)
      value = value.grad().defined() ? value.grad().clone() : value.grad();
    return of;
  }

  bool is_granite;
  ExpertFeedForward layer;

 private:
  at::Tensor through(int64_t expert, const at::Tensor& x) const {
    const StackedExperts& all = *layer.stacked;
    if (is_granite) {
      const at::Tensor both = x.matmul(all.gate_up.weight->value[expert].t());
      const at::Tensor active =
          at::silu(both.narrow(0, 0, kInner)) * both.narrow(0, kInner, kInner);
      return active.matmul(all.down.weight->value[expert].t());
    }
    const at::Tensor wide =
        x.matmul(all.gate_up.weight->value[expert]) + all.gate_up.bias->value[expert];
    const at::Tensor gate = wide.slice(0, 0, c10::nullopt, 2).clamp_max(kLimit);
    const at::Tensor up = wide.slice(0, 1, c10::nullopt, 2).clamp(-kLimit, kLimit);
    const at::Tensor active = (up + 1) * gate * (gate * kAlpha).sigmoid();
    return active.matmul(all.down.weight->value[expert]) + all.down.bias->value[expert];
  }
};

void compare(Built& built, const at::Tensor& x, int64_t times = 1) {
  const at::Tensor out = built.run(x), wanted = built.defined(x) * times;
  CHECK(at::allclose(out, wanted, 1e-11, 1e-12));
  const at::Tensor pull = at::randn_like(wanted);
  const auto got = built.gradients_of(out, pull, x), right = built.gradients_of(wanted, pull, x);
  CHECK(right.size() == (built.is_granite ? 5 : 7));
  for (const auto& [name, gradient] : right) {
    INFO(name);
    REQUIRE(got.at(name).defined());
    CHECK(at::allclose(got.at(name), gradient, 1e-10, 1e-11));
  }
}

}  // namespace

TEST_CASE("experts in one tensor compute the sum that defines them, and its gradients") {
  at::manual_seed(21);
  Built built(GENERATE(false, true));
  compare(built, random({2, 7, kHidden}));
}

TEST_CASE("all tokens may take the same experts of a tensor; the others' gradients are zeros") {
  at::manual_seed(22);
  Built built(GENERATE(false, true));
  {
    const at::NoGradGuard no_grad;
    built.layer.router.gate.weight->value.zero_();
    built.layer.router.gate.bias->value.copy_(at::tensor({1.0, -5.0, 2.0, -6.0}, at::kDouble));
  }
  const at::Tensor x = random({2, 7, kHidden});
  compare(built, x);
  built.layer.counts.clear();
  const auto got = built.gradients_of(built.run(x), at::randn({2, 7, kHidden}, at::kDouble), x);
  CHECK(built.layer.counts == std::vector<int64_t>{14, 0, 14, 0});
  for (const char* name : {"gate_up", "gate_up_bias", "down", "down_bias"}) {
    if (!got.contains(name)) continue;
    INFO(name);
    CHECK(at::count_nonzero(got.at(name)[1]).item<int64_t>() == 0);
    CHECK(at::count_nonzero(got.at(name)[2]).item<int64_t>() > 0);
  }
}

TEST_CASE("rows that are far more than even routing gives take experts of a tensor in parts") {
  at::manual_seed(24);
  Built built(GENERATE(false, true));
  built.layer.dispatcher = std::make_shared<const test::RepeatedRows>(4);
  compare(built, random({2, 7, kHidden}), 4);
}

TEST_CASE("what does not train of experts in one tensor has no gradient") {
  at::manual_seed(23);
  Built built;
  const at::Tensor x = random({2, 7, kHidden}), pull = at::randn({2, 7, kHidden}, at::kDouble);
  const auto wanted = built.gradients_of(built.run(x), pull, x);
  const std::string frozen = GENERATE("gate_up", "gate_up_bias", "down", "down_bias");
  for (Linear* each : built.layer.linears()) {
    for (const ParameterPtr& parameter : {each->weight, each->bias}) {
      if (parameter->name == frozen) parameter->value.set_requires_grad(false);
    }
  }
  for (const auto& [name, gradient] : built.gradients_of(built.run(x), pull, x)) {
    INFO(name);
    CHECK(gradient.defined() == (name != frozen));
    if (gradient.defined()) CHECK(at::equal(gradient, wanted.at(name)));
  }
}

TEST_CASE("a segment of experts in one tensor has the same gradients to the bit") {
  at::manual_seed(24);
  Built built(GENERATE(false, true));
  const at::Tensor x = random({2, 7, kHidden}), pull = at::randn({2, 7, kHidden}, at::kDouble);
  const auto wanted = built.gradients_of(built.run(x), pull, x);
  const bool leaves = GENERATE(false, true);
  const at::Tensor out = checkpoint(
      [&](const Tensors& in, RecomputeTape& products) -> Tensors {
        return built.layer.product(in[0], /*keeps_gate=*/true, leaves, products);
      },
      {x}, /*trains=*/true)[0];
  for (const auto& [name, gradient] : built.gradients_of(out, pull, x)) {
    INFO(name);
    CHECK(at::equal(gradient, wanted.at(name)));
  }
}

}  // namespace am::nn::stacked
