// Tests the operators of experts: matrix products, stacked experts, and padded dispatch.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "am/nn/experts/dispatch.h"
#include "am/nn/experts/expert_feed_forward.h"
#include "am/nn/experts/stacked.h"
#include "am/nn/experts/weighed_down.h"
#include "am/nn/fused/clamped.h"
#include "cuda/operator_check.h"

namespace am {
namespace {

using model::Activation;
using test::check_operator;
using test::clamped_in_full;
using test::Operator;
using test::random_input;
using test::Tensors;

namespace fused = nn::fused;

nn::Linear linear_of(const std::string& name, const at::Tensor& weight,
                     const at::Tensor& bias = {}) {
  nn::Linear made;
  made.name = name;
  made.weight = std::make_shared<nn::Parameter>(nn::Parameter{name, weight});
  if (bias.defined()) made.bias = std::make_shared<nn::Parameter>(nn::Parameter{name, bias});
  return made;
}

constexpr int64_t kExperts = 6, kTaken = 2;

// Returns a feed-forward of experts. Its inputs are x_BTD ([sequences, positions, hidden size]),
// the router's weight, and the gate, up and down weights of each expert.
Operator experts_of_layer() {
  return [](const Tensors& in) {
    nn::ExpertFeedForward layer;
    layer.router = {linear_of("gate", in[1]), {.experts = kExperts, .top_k = kTaken}};
    layer.router.spec.normalise = true;
    for (int64_t e = 0; e < kExperts; ++e) {
      const at::Tensor* of = &in[static_cast<size_t>(2 + 3 * e)];
      layer.experts.push_back(
          {linear_of("g", of[0]), linear_of("u", of[1]), linear_of("d", of[2])});
    }
    nn::RecomputeTape products;
    return layer.finish(layer.product(in[0], /*keeps_gate=*/true, /*leaves=*/true, products),
                        in[0].size(1));
  };
}

Operator experts_in_full() {
  return [](const Tensors& in) {
    const at::Tensor x_ND = in[0].flatten(0, 1);
    const at::Tensor scores_NE = at::linear(x_ND, in[1]).softmax(-1);
    const auto [best_Nk, ids_Nk] = scores_NE.topk(kTaken);
    const at::Tensor chosen_NE = at::zeros_like(scores_NE).scatter(1, ids_Nk, 1.0);
    const at::Tensor weights_NE = scores_NE * chosen_NE / best_Nk.sum(-1, true);
    at::Tensor sum = at::zeros_like(x_ND);
    for (int64_t e = 0; e < kExperts; ++e) {
      const at::Tensor* of = &in[static_cast<size_t>(2 + 3 * e)];
      const at::Tensor wide = at::silu(at::linear(x_ND, of[0])) * at::linear(x_ND, of[1]);
      sum = sum + at::linear(wide, of[2]) * weights_NE.narrow(1, e, 1);
    }
    return sum.view_as(in[0]);
  };
}

}  // namespace

TEST_CASE("experts") {
  Tensors layer = {random_input({2, 40, 64}), random_input({kExperts, 64}, 0.3)};
  for (int64_t e = 0; e < kExperts; ++e) {
    layer.insert(layer.end(), {random_input({48, 64}, 0.1), random_input({48, 64}, 0.1),
                               random_input({64, 48}, 0.1)});
  }
  check_operator("experts", experts_of_layer(), experts_in_full(), layer);
  check_operator(
      "weighed down",
      [](const Tensors& in) {
        return nn::weighed_down(in[0], in[1], in[3].to(at::kFloat), in[2], Activation::kSilu);
      },
      [](const Tensors& in) {
        return at::linear(at::silu(in[0]) * in[1], in[2]) * in[3].unsqueeze(1);
      },
      {random_input({50, 48}), random_input({50, 48}), random_input({64, 48}, 0.1),
       random_input({50})});
  // The three experts have 30, 0 and 20 rows. All values are far below the clamp's limit: at the
  // limit, rounding would decide whether a gradient is zero.
  const std::vector<int64_t> counts = {30, 0, 20};
  const fused::Clamp clamp = {1.702, 7.0};
  const auto of_stack = [=](const Tensors& in, const auto& products) {
    return at::cat(products(in[0].split_with_sizes(counts), in[1].split_with_sizes(counts)));
  };
  check_operator(
      "stacked experts",
      [=](const Tensors& in) {
        nn::StackedExperts stacked = {linear_of("gate_up", in[2], in[3]),
                                      linear_of("down", in[4], in[5]), clamp};
        stacked.gate_up.in_out = stacked.down.in_out = true;
        return of_stack(in, [&](const Tensors& rows, const Tensors& weights) {
          Tensors wide;
          for (const at::Tensor& each : weights) wide.push_back(each.to(at::kFloat));
          return stacked.products(rows, wide, /*unread=*/false);
        });
      },
      [=](const Tensors& in) {
        return of_stack(in, [&](const Tensors& rows, const Tensors& weights) {
          Tensors out;
          for (size_t i = 0; i < rows.size(); ++i) {
            const auto e = static_cast<int64_t>(i);
            const at::Tensor pairs = rows[i].mm(in[2].select(0, e)) + in[3].select(0, e);
            out.push_back(
                (clamped_in_full(pairs, clamp).mm(in[4].select(0, e)) + in[5].select(0, e)) *
                weights[i].unsqueeze(1));
          }
          return out;
        });
      },
      {random_input({50, 64}), random_input({50}), random_input({3, 64, 96}, 0.1),
       random_input({3, 96}), random_input({3, 48, 64}, 0.1), random_input({3, 64})});
}

TEST_CASE("padded experts") {
  constexpr int64_t kTokens = 40;
  const at::Tensor first_N = at::arange(kTokens).remainder(kExperts);
  const at::Tensor ids_Nk =
      at::stack({first_N, (first_N + 1 + at::arange(kTokens).remainder(4)).remainder(kExperts)}, 1);
  // Expert e maps x to (e + 2) x + 1. Its outputs for rows of padding are therefore not zero.
  check_operator(
      "padded experts",
      [=](const Tensors& in) {
        const nn::Placement placed =
            nn::place_by_expert(ids_Nk.to(in[0].device()), kExperts, /*multiple=*/64);
        Tensors rows = nn::dispatch(in[0], placed);
        const Tensors weights = nn::deal(in[1], placed);
        for (size_t e = 0; e < rows.size(); ++e) {
          rows[e] = (rows[e] * static_cast<double>(e + 2) + 1.0) * weights[e].unsqueeze(1);
        }
        return nn::combine(rows, placed);
      },
      [=](const Tensors& in) {
        const at::Tensor factors_Nk = (ids_Nk.to(in[0].device()) + 2).to(in[0].scalar_type());
        const at::Tensor each_NkD = in[0].unsqueeze(1) * factors_Nk.unsqueeze(2) + 1.0;
        return (each_NkD * in[1].unsqueeze(2)).sum(1);
      },
      {random_input({kTokens, 64}), random_input({kTokens, kTaken})});
}

}  // namespace am
