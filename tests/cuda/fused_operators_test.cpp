// Compares the operators of nn/fused, except attention and experts, with plain formulas.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/nn/fused/adapted_linear.h"
#include "am/nn/fused/clamped.h"
#include "am/nn/fused/cross_entropy.h"
#include "am/nn/fused/cross_entropy_rows.h"
#include "am/nn/fused/dropout.h"
#include "am/nn/fused/gated.h"
#include "am/nn/fused/layer_norm.h"
#include "am/nn/fused/linear.h"
#include "am/nn/fused/look_up.h"
#include "am/nn/fused/product.h"
#include "am/nn/fused/rms_norm.h"
#include "am/nn/fused/rotary.h"
#include "am/nn/fused/shared_rms_norm.h"
#include "am/nn/fused/softcap.h"
#include "cuda/operator_check.h"

namespace am {
namespace {

using model::Activation;
using model::NormKind;
using test::by_autograd;
using test::check_operator;
using test::clamped_in_full;
using test::Operator;
using test::Outcome;
using test::poisoned;
using test::Pull;
using test::random_input;
using test::Tensors;
using test::without_gradients;

namespace fused = nn::fused;

constexpr double kEps = 1e-5;

Operator norm_in_full(NormKind kind) {
  return [kind](const Tensors& in) {
    const at::Tensor normal = in[0] * (in[0].square().mean(-1, true) + kEps).rsqrt();
    return normal * (kind == NormKind::kRmsPlusOne ? 1.0 + in[1] : in[1]);
  };
}

at::Tensor activated_in_full(const at::Tensor& x, Activation activation) {
  if (activation == Activation::kSilu) return at::silu(x);
  return at::gelu(x, activation == Activation::kGeluTanh ? "tanh" : "none");
}

const std::vector<std::pair<std::string, Activation>> kActivations = {
    {"silu", Activation::kSilu},
    {"gelu tanh", Activation::kGeluTanh},
    {"gelu erf", Activation::kGeluErf}};

}  // namespace

TEST_CASE("norms") {
  const Tensors inputs = {random_input({2, 33, 256}, 3.0), random_input({256})};
  for (const auto& [name, kind] : {std::pair{"rms norm", NormKind::kRms},
                                   {"rms norm, wide", NormKind::kRmsWide},
                                   {"rms norm, 1 + weight", NormKind::kRmsPlusOne}}) {
    check_operator(
        name,
        [kind = kind](const Tensors& in) { return fused::rms_norm(in[0], in[1], kEps, kind); },
        norm_in_full(kind), inputs);
    check_operator(
        cat(name, ", of a sum"),
        [kind = kind](const Tensors& in) {
          const fused::NormedSum both = fused::normed_sum(in[0], in[2], in[1], kEps, kind);
          return both.y * 0.5 + both.sum;
        },
        [full = norm_in_full(kind)](const Tensors& in) {
          const at::Tensor sum = in[0] + in[2];
          return full({sum, in[1]}) * 0.5 + sum;
        },
        {inputs[0], inputs[1], random_input({2, 33, 256})});
    const std::function<void(const at::Tensor&)> alone = [](const at::Tensor&) {};
    check_operator(
        cat(name, ", rows over ranks"),
        [kind = kind, &alone](const Tensors& in) {
          return fused::shared_rms_norm(in[0], in[1], {kEps, kind, 256, &alone});
        },
        norm_in_full(kind), inputs);
  }
  // Layer norm is tested with few rows, because ATen's host kernel sums the gradients of weight and
  // bias in bfloat16.
  check_operator(
      "layer norm", [](const Tensors& in) { return fused::layer_norm(in[0], in[1], in[2], kEps); },
      [](const Tensors& in) {
        const at::Tensor apart = in[0] - in[0].mean(-1, true);
        return apart * (apart.square().mean(-1, true) + kEps).rsqrt() * in[1] + in[2];
      },
      {random_input({2, 8, 256}), random_input({256}), random_input({256})});
}

TEST_CASE("gated activations") {
  const Tensors wide = {random_input({3, 31, 96}, 2.0), random_input({3, 31, 96})};
  for (const auto& each : kActivations) {
    const Activation activation = each.second;
    check_operator(
        cat("gated, ", each.first),
        [=](const Tensors& in) { return fused::gated(in[0], in[1], activation); },
        [=](const Tensors& in) { return activated_in_full(in[0], activation) * in[1]; }, wide);
    check_operator(
        cat("gated and multiplied, ", each.first),
        [=](const Tensors& in) {
          return fused::gated_linear(in[0], in[1], in[2], std::nullopt, activation);
        },
        [=](const Tensors& in) {
          return at::linear(activated_in_full(in[0], activation) * in[1], in[2]);
        },
        {wide[0], wide[1], random_input({64, 96}, 0.1)});
    check_operator(
        cat("activated and multiplied, ", each.first),
        [=](const Tensors& in) {
          return fused::activated_linear(in[0], in[1], in[2], activation, {.in_out = true});
        },
        [=](const Tensors& in) {
          return activated_in_full(in[0], activation).matmul(in[1]) + in[2];
        },
        {wide[0], random_input({96, 64}, 0.1), random_input({64})});
  }
  const fused::Clamp clamp = {1.702, 1.5};
  check_operator("clamped pairs",
                 [=](const Tensors& in, const Pull& pull) -> Outcome {
                   const at::Tensor value = fused::clamped(in[0], clamp);
                   return {value, {fused::clamped_gradient(pull(value), in[0], clamp)}};
                 },
                 by_autograd([=](const Tensors& in) { return clamped_in_full(in[0], clamp); }),
                 {random_input({65, 96}, 2.0)});
}

TEST_CASE("linear layers") {
  const at::Tensor x = random_input({2, 37, 128});
  const auto plain = [](const Tensors& in) { return at::linear(in[0], in[1], in[2]); };
  check_operator("linear", [](const Tensors& in) { return fused::linear(in[0], in[1], in[2]); },
                 plain, {x, random_input({96, 128}, 0.1), random_input({96})});
  check_operator(
      "linear, [in, out]",
      [](const Tensors& in) { return fused::linear(in[0], in[1], in[2], {.in_out = true}); },
      [](const Tensors& in) { return in[0].matmul(in[1]) + in[2]; },
      {x, random_input({128, 96}, 0.1), random_input({96})});
  check_operator(
      "linear in slices",
      [](const Tensors& in) {
        return at::cat(fused::sliced_linear(in[0], in[1], in[2], {.lengths = {64, 16, 16}}), -1);
      },
      plain, {x, random_input({96, 128}, 0.1), random_input({96})});
  check_operator(
      "linear with an adapter",
      [](const Tensors& in) {
        return fused::adapted_linear(in[0], in[1], std::nullopt, {in[2], in[3], 0.5},
                                     {.lengths = {96}})
            .front();
      },
      [](const Tensors& in) {
        return at::linear(in[0], in[1]) + at::linear(at::linear(in[0], in[2]), in[3]) * 0.5;
      },
      {x, random_input({96, 128}, 0.1), random_input({8, 128}, 0.1), random_input({96, 8}, 0.3)});
  check_operator("product", without_gradients([](const Tensors& in) {
                   return fused::product(in[0], in[1].t());
                 }),
                 without_gradients([](const Tensors& in) { return in[0].mm(in[1].t()); }),
                 {random_input({70, 128}), random_input({50, 128})});
  const fused::Dropout half = {
      .p = 0.5, .key = fused::dropout_key(1, 2, 3), .rows = {.length = 64}};
  check_operator("dropout",
                 without_gradients([=](const Tensors& in) { return fused::dropped(in[0], half); }),
                 without_gradients([=](const Tensors& in) { return fused::dropped(in[0], half); }),
                 {random_input({64, 128})});
}

TEST_CASE("rotation, look-up, soft-cap") {
  const at::Tensor angle = random_input({50, 32});
  const at::Tensor cos = at::cat({angle.cos(), angle.cos()}, -1);
  const at::Tensor sin = at::cat({angle.sin(), angle.sin()}, -1);
  for (const int64_t width : {64, 96}) {
    check_operator(
        cat("rotation of 64 of ", width),
        [](const Tensors& in) { return fused::rotate(in[0], in[1].detach(), in[2].detach()); },
        [](const Tensors& in) {
          const at::Tensor x = in[0].narrow(-1, 0, 64),
                           rest = in[0].narrow(-1, 64, in[0].size(-1) - 64);
          const at::Tensor turned = at::cat({-x.narrow(-1, 32, 32), x.narrow(-1, 0, 32)}, -1);
          return at::cat({x * in[1].detach() + turned * in[2].detach(), rest}, -1);
        },
        {random_input({2, 50, 4, width}).transpose(1, 2), cos, sin});
  }
  check_operator(
      "rotation of queries and keys",
      [](const Tensors& in) {
        const auto [q, k] = fused::rotate_both(in[0], in[1], in[2].detach(), in[3].detach());
        return at::cat({q, k}, 1);
      },
      [](const Tensors& in) {
        const at::Tensor x = at::cat({in[0], in[1]}, 1);
        const auto halves = x.chunk(2, -1);
        return x * in[2].detach() + at::cat({-halves[1], halves[0]}, -1) * in[3].detach();
      },
      {random_input({2, 50, 4, 64}).transpose(1, 2), random_input({2, 50, 2, 64}).transpose(1, 2),
       cos, sin});
  check_operator(
      "look-up", [](const Tensors& in) { return fused::look_up(in[0], in[1], 3); },
      [](const Tensors& in) { return at::embedding(in[0], in[1], 3); },
      {random_input({40, 64}), at::randint(40, {2, 60}, at::kLong)});
  check_operator(
      "soft-cap", [](const Tensors& in) { return fused::soft_cap(in[0] * 1.0, 2.0); },
      [](const Tensors& in) { return (in[0] / 2.0).tanh() * 2.0; }, {random_input({37, 100}, 2.0)});
}

TEST_CASE("cross-entropy") {
  const at::Tensor labels = at::randint(1000, {90}, at::kLong);
  labels[7] = -100;
  for (const auto& [name, width] :
       {std::pair{"cross-entropy", 1000}, {"cross-entropy, odd width", 3001}}) {
    check_operator(
        name,
        [](const Tensors& in) {
          return fused::cross_entropy_sum(in[0] * 1.0, in[1], {}).to(in[0].scalar_type());
        },
        [](const Tensors& in) {
          return at::cross_entropy_loss(in[0], in[1], {}, at::Reduction::Sum, -100);
        },
        {random_input({90, width}, 3.0), labels});
  }
  // A rank's slice of the vocabulary: the ids 400 to 699.
  const fused::LabelRange range = {.first = 400};
  check_operator("cross-entropy's gradient of a slice", without_gradients([=](const Tensors& in) {
                   const fused::LogitSums sums = fused::logit_sums(in[0], in[1], range);
                   at::Tensor out = poisoned(in[0].sizes(), in[0].scalar_type());
                   fused::cross_entropy_gradient(out, in[0],
                                                 sums.maximum_N + sums.exponentials_N.log(), in[1],
                                                 range, {}, at::ones({}, sums.maximum_N.options()));
                   return out;
                 }),
                 without_gradients([=](const Tensors& in) {
                   const at::Tensor column = in[1] - range.first;
                   const at::Tensor here = column.ge(0).logical_and(column.lt(300));
                   const at::Tensor hot = at::zeros_like(in[0]).scatter_(
                       1, (column * here).unsqueeze(1), here.to(at::kDouble).unsqueeze(1));
                   return (in[0].softmax(-1) - hot).masked_fill(in[1].eq(-100).unsqueeze(1), 0.0);
                 }),
                 {random_input({90, 300}, 3.0), labels});
}

}  // namespace am
