// Every operator of nn/fused, attention in all its forms and experts' products, on a device against
// plain formulas in float64 on the host: values and all gradients, in float32 and bfloat16.
//
//   am_gpu_tests                            on the first GPU; exits with 77 where there is none
//   AM_OPERATORS_DEVICE=cpu am_gpu_tests    the same table on the host
//   AM_OPERATORS_SEED=42 am_gpu_tests       inputs of an earlier run, which printed its seed
//
// Inputs are random in each run, and rounded to the dtype before both sides read them. Before each
// operator runs, NaN is written into memory that it will be given. An error is ||out - wanted|| /
// ||wanted||, at most 1e-5 in float32 and 1e-2 in bfloat16; NaN never passes.
#define CATCH_CONFIG_RUNNER
#include "support/operators.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/nn/attention/attention.h"
#include "am/nn/attention/block_kernel.h"
#include "am/nn/attention/blocked.h"
#include "am/nn/experts/expert_feed_forward.h"
#include "am/nn/experts/stacked.h"
#include "am/nn/experts/weighed_down.h"
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
#include "am/nn/rope.h"
#include "am/parallel/cp/ring.h"
#include "am/runtime/engine_plugin.h"

namespace am {
namespace {

namespace fused = nn::fused;
using model::Activation;
using model::NormKind;
using test::Operator;
using test::Outcome;
using test::Tensors;

constexpr double kEps = 1e-5;
constexpr double kHidden = -std::numeric_limits<double>::infinity();

at::Device& device() {
  static at::Device one = at::kCPU;
  return one;
}

double allowed(at::ScalarType dtype) { return dtype == at::kFloat ? 1e-5 : 1e-2; }

// Fills freed memory with NaN, of which the next tensors are made.
void poison_memory() {
  Tensors all;
  for (int64_t numel = 64; numel <= (1 << 20); numel *= 4) {
    for (int i = 0; i < 4; ++i) {
      all.push_back(
          at::full({numel}, std::nan(""), at::TensorOptions(at::kFloat).device(device())));
    }
  }
}

at::Tensor poisoned(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::full(sizes, std::nan(""), at::TensorOptions(dtype).device(device()));
}

at::Tensor on_host(const at::Tensor& x) { return x.to(at::kCPU).to(at::kDouble); }

double error_of(const at::Tensor& got, const at::Tensor& wanted) {
  if (!got.defined() || got.sizes() != wanted.sizes()) return std::nan("");
  const auto apart = at::linalg_vector_norm(on_host(got) - wanted).item<double>();
  const auto size = at::linalg_vector_norm(wanted).item<double>();
  return size == 0.0 && apart == 0.0 ? 0.0 : apart / size;
}

// The gradient that enters behind a value: on both sides one tensor, each on its device.
using Pull = std::function<at::Tensor(const at::Tensor& value)>;
using Outcomes = std::function<Outcome(const Tensors& inputs, const Pull& pull)>;

Outcomes by_autograd(const Operator& operation) {
  return [operation](const Tensors& inputs, const Pull& pull) {
    Tensors leaves;
    for (const at::Tensor& each : inputs) {
      leaves.push_back(each.is_floating_point() ? each.detach().requires_grad_(true) : each);
    }
    Outcome made = {operation(leaves), {}};
    made.value.backward(pull(made.value));
    for (const at::Tensor& leaf : leaves) {
      if (leaf.requires_grad()) made.gradients.push_back(leaf.grad());
    }
    return made;
  };
}

Outcomes without_gradients(const Operator& operation) {
  return [operation](const Tensors& inputs, const Pull& /*pull*/) -> Outcome {
    const at::NoGradGuard no_grad;
    return {operation(inputs), {}};
  };
}

// A line of the table for each dtype. `inputs`: of the host, float64 or integers.
void check(const std::string& name, const Outcomes& ours, const Outcomes& wanted,
           const Tensors& inputs) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto rounded = [&](const at::Tensor& x) {
      return x.is_floating_point() ? x.to(dtype) : x;
    };
    Tensors here, exact;
    for (const at::Tensor& input : inputs) {
      here.push_back(rounded(input).to(device()));
      exact.push_back(input.is_floating_point() ? on_host(rounded(input)) : input);
    }
    at::Tensor entering;
    const Outcome right = wanted(exact, [&](const at::Tensor& value) {
      return entering = on_host(at::randn(value.sizes(), at::kDouble).to(dtype));
    });
    poison_memory();
    const Outcome got =
        ours(here, [&](const at::Tensor& value) { return entering.to(value.options()); });
    const char* narrow = dtype == at::kFloat ? "float32 " : "bfloat16";
    std::vector<double> errors = {error_of(got.value, right.value.detach())};
    for (size_t i = 0; i < got.gradients.size(); ++i) {
      if (!got.gradients[i].defined() && !right.gradients.at(i).defined()) continue;
      errors.push_back(error_of(got.gradients[i], right.gradients.at(i)));
    }
    bool fine = true;
    std::printf("%-46s %s ", name.c_str(), narrow);
    for (const double error : errors) {
      std::printf(" %.1e", error);
      fine = fine && error < allowed(dtype);  // NaN is not
    }
    std::printf("%s\n", fine ? "" : "   TOO MUCH");
    INFO(name << " " << narrow);
    CHECK(fine);
  }
}

void check(const std::string& name, const Operator& ours, const Operator& wanted,
           const Tensors& inputs) {
  check(name, by_autograd(ours), by_autograd(wanted), inputs);
}

at::Tensor random(at::IntArrayRef sizes, double scale = 1.0) {
  return at::randn(sizes, at::kDouble) * scale;
}

// ---- attention in full
// ------------------------------------------------------------------------------

// Every score of every query, with Look::document_BT on the host.
at::Tensor attention_in_full(const Tensors& in, const nn::Look& look) {
  const int64_t repeats = in[0].size(1) / in[1].size(1);
  const int64_t queries = in[0].size(2), keys = in[1].size(2);
  const at::Tensor k = in[1].repeat_interleave(repeats, 1);
  const at::Tensor v = in[2].repeat_interleave(repeats, 1);
  at::Tensor scores = at::matmul(in[0], k.transpose(2, 3)) * look.scale;
  if (look.softcap) scores = (scores / *look.softcap).tanh() * *look.softcap;
  const at::Tensor query = at::arange(keys - queries, keys).unsqueeze(1);  // the last positions
  const at::Tensor key = at::arange(keys).unsqueeze(0);
  at::Tensor hidden = key.gt(query);
  if (look.window > 0) hidden = hidden.logical_or(key.le(query - look.window));
  if (look.document_BT.defined()) {
    const at::Tensor own = look.document_BT.narrow(1, keys - queries, queries);
    const at::Tensor other = look.document_BT.narrow(1, 0, keys);
    hidden = hidden.logical_or(own.unsqueeze(2).ne(other.unsqueeze(1)).unsqueeze(1));
  }
  scores = scores.masked_fill(hidden, kHidden);
  if (in.size() < 4) return at::matmul(scores.softmax(-1), v);
  const at::Tensor sinks = in[3].view({1, -1, 1, 1}).expand({in[0].size(0), -1, queries, 1});
  return at::matmul(at::cat({scores, sinks}, -1).softmax(-1).narrow(-1, 0, keys), v);
}

struct HeadShape {
  int64_t batch = 2, heads = 4, key_heads = 2, queries = 300, keys = 300, width = 64, values = 64;
};

Tensors heads_of(const HeadShape& shape, bool sinks = false) {
  const auto heads = [&](int64_t count, int64_t length, int64_t width) {
    return random({shape.batch, length, count, width}).transpose(1, 2);
  };
  Tensors all = {heads(shape.heads, shape.queries, shape.width),
                 heads(shape.key_heads, shape.keys, shape.width),
                 heads(shape.key_heads, shape.keys, shape.values)};
  if (sinks) all.push_back(random({shape.heads}));
  return all;
}

// Documents begin at random.
nn::Look packed(nn::Look look, const HeadShape& shape) {
  const at::Tensor positions_BT = at::rand({shape.batch, shape.keys}).ge(0.03).to(at::kLong);
  look.document_BT = nn::documents(positions_BT);
  look.document_starts =
      std::make_shared<const std::vector<int64_t>>(nn::document_starts(positions_BT));
  return look;
}

nn::Look on_device(nn::Look look) {
  if (look.document_BT.defined()) look.document_BT = look.document_BT.to(device());
  return look;
}

std::optional<at::Tensor> sinks_of(const Tensors& in) {
  return in.size() > 3 ? std::optional(in[3]) : std::nullopt;
}

void check_attention(const std::string& name, const HeadShape& shape, const nn::Look& look,
                     bool sinks = false) {
  check(
      name,
      [=](const Tensors& in) {
        return nn::attention({in[0], in[1], in[2]}, on_device(look), sinks_of(in));
      },
      [=](const Tensors& in) { return attention_in_full(in, look); }, heads_of(shape, sinks));
}

// As context parallelism has it: queries and keys in runs, a block of each at a time.
Outcome in_blocks(const Tensors& inputs, const Pull& pull, const nn::Look& whole_look,
                  int64_t run) {
  const at::NoGradGuard no_grad;
  const nn::Look look = on_device(whole_look);
  const at::Tensor& q = inputs[0];
  const int64_t batch = q.size(0), heads = q.size(1), length = q.size(2);
  const auto part = [&](const at::Tensor& x, int64_t i) { return x.narrow(2, i * run, run); };
  const auto block = [&](int64_t i, int64_t j) -> nn::Heads {
    return {part(q, i), part(inputs[1], j), part(inputs[2], j)};
  };
  const auto float_like = q.options().dtype(at::kFloat);
  const nn::Attended all = {at::zeros({batch, length, heads, inputs[2].size(3)}, float_like),
                            at::full({batch, heads, length}, kHidden, float_like)};
  const auto visit = [&](const auto& step) {
    for (int64_t i = 0; i * run < length; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        step(i, j, nn::Firsts{.query = i * run, .key = j * run});
      }
    }
  };
  visit([&](int64_t i, int64_t j, const nn::Firsts& firsts) {
    const nn::Attended one = {poisoned({batch, run, heads, inputs[2].size(3)}, at::kFloat),
                              poisoned({batch, heads, run}, at::kFloat)};
    attend(block(i, j), look, firsts, one);
    parallel::cp::merge({all.out_BtHV.narrow(1, i * run, run), part(all.lse_BHt, i)}, one);
  });
  Outcome made = {all.out_BtHV.transpose(1, 2).to(q.scalar_type()), {}};
  const at::Tensor entering = pull(made.value);
  const at::Tensor along = (entering.to(at::kFloat) * all.out_BtHV.transpose(1, 2)).sum(-1);
  for (const at::Tensor& each : inputs) {
    made.gradients.push_back(at::zeros(each.sizes(), float_like));
  }
  visit([&](int64_t i, int64_t j, const nn::Firsts& firsts) {
    attend_backward(
        block(i, j), look, firsts,
        {part(entering, i), part(all.lse_BHt, i), part(along, i),
         all.out_BtHV.narrow(1, i * run, run)},
        {part(made.gradients[0], i), part(made.gradients[1], j), part(made.gradients[2], j)});
  });
  return made;
}

// ---- norms
// ------------------------------------------------------------------------------------------

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

// ---- experts
// ----------------------------------------------------------------------------------------

nn::Linear linear_of(const std::string& name, const at::Tensor& weight,
                     const at::Tensor& bias = {}) {
  nn::Linear made;
  made.name = name;
  made.weight = std::make_shared<nn::Parameter>(nn::Parameter{name, weight});
  if (bias.defined()) made.bias = std::make_shared<nn::Parameter>(nn::Parameter{name, bias});
  return made;
}

constexpr int64_t kExperts = 6, kTaken = 2;

// x_BTD, the router's weight, and of each expert gate, up and down.
Operator experts_of_layer() {
  return [](const Tensors& in) {
    nn::ExpertFeedForward layer;
    layer.router = {linear_of("gate", in[1]), {.experts = kExperts, .taken = kTaken}};
    layer.router.spec.normalise = true;
    for (int64_t e = 0; e < kExperts; ++e) {
      const at::Tensor* of = &in[static_cast<size_t>(2 + 3 * e)];
      layer.experts.push_back(
          {linear_of("g", of[0]), linear_of("u", of[1]), linear_of("d", of[2])});
    }
    nn::Products products;
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

at::Tensor clamped_in_full(const at::Tensor& pairs, const fused::Clamp& clamp) {
  const at::Tensor both = pairs.unflatten(-1, {-1, 2});
  const at::Tensor gate = both.select(-1, 0).clamp_max(clamp.limit);
  const at::Tensor up = both.select(-1, 1).clamp(-clamp.limit, clamp.limit);
  return (up + 1) * gate * (gate * clamp.alpha).sigmoid();
}

}  // namespace

TEST_CASE("norms") {
  const Tensors inputs = {random({2, 33, 256}, 3.0), random({256})};
  for (const auto& [name, kind] : {std::pair{"rms norm", NormKind::kRms},
                                   {"rms norm, wide", NormKind::kRmsWide},
                                   {"rms norm, 1 + weight", NormKind::kRmsPlusOne}}) {
    check(
        name,
        [kind = kind](const Tensors& in) { return fused::rms_norm(in[0], in[1], kEps, kind); },
        norm_in_full(kind), inputs);
    const std::function<void(const at::Tensor&)> alone = [](const at::Tensor&) {};
    check(
        cat(name, ", rows over ranks"),
        [kind = kind, &alone](const Tensors& in) {
          return fused::shared_rms_norm(in[0], in[1], {kEps, kind, 256, &alone});
        },
        norm_in_full(kind), inputs);
  }
  // Few rows: on the host ATen adds up the gradients of weight and bias in bfloat16.
  check(
      "layer norm", [](const Tensors& in) { return fused::layer_norm(in[0], in[1], in[2], kEps); },
      [](const Tensors& in) {
        const at::Tensor apart = in[0] - in[0].mean(-1, true);
        return apart * (apart.square().mean(-1, true) + kEps).rsqrt() * in[1] + in[2];
      },
      {random({2, 8, 256}), random({256}), random({256})});
}

TEST_CASE("gated activations") {
  const Tensors wide = {random({3, 31, 96}, 2.0), random({3, 31, 96})};
  for (const auto& each : kActivations) {
    const Activation activation = each.second;
    check(
        cat("gated, ", each.first),
        [=](const Tensors& in) { return fused::gated(in[0], in[1], activation); },
        [=](const Tensors& in) { return activated_in_full(in[0], activation) * in[1]; }, wide);
    check(
        cat("gated and multiplied, ", each.first),
        [=](const Tensors& in) {
          return fused::gated_linear(in[0], in[1], in[2], std::nullopt, activation);
        },
        [=](const Tensors& in) {
          return at::linear(activated_in_full(in[0], activation) * in[1], in[2]);
        },
        {wide[0], wide[1], random({64, 96}, 0.1)});
    check(
        cat("activated and multiplied, ", each.first),
        [=](const Tensors& in) {
          return fused::activated_linear(in[0], in[1], in[2], activation, /*in_out=*/true);
        },
        [=](const Tensors& in) {
          return activated_in_full(in[0], activation).matmul(in[1]) + in[2];
        },
        {wide[0], random({96, 64}, 0.1), random({64})});
  }
  const fused::Clamp clamp = {1.702, 1.5};
  check("clamped pairs",
        [=](const Tensors& in, const Pull& pull) -> Outcome {
          const at::Tensor value = fused::clamped(in[0], clamp);
          return {value, {fused::clamped_gradient(pull(value), in[0], clamp)}};
        },
        by_autograd([=](const Tensors& in) { return clamped_in_full(in[0], clamp); }),
        {random({65, 96}, 2.0)});
}

TEST_CASE("linear layers") {
  const at::Tensor x = random({2, 37, 128});
  const auto plain = [](const Tensors& in) { return at::linear(in[0], in[1], in[2]); };
  check("linear", [](const Tensors& in) { return fused::linear(in[0], in[1], in[2]); }, plain,
        {x, random({96, 128}, 0.1), random({96})});
  check(
      "linear, [in, out]",
      [](const Tensors& in) { return fused::linear(in[0], in[1], in[2], /*in_out=*/true); },
      [](const Tensors& in) { return in[0].matmul(in[1]) + in[2]; },
      {x, random({128, 96}, 0.1), random({96})});
  check("linear in slices",
        [](const Tensors& in) {
          return at::cat(fused::sliced_linear(in[0], in[1], in[2], {.lengths = {64, 16, 16}}), -1);
        },
        plain, {x, random({96, 128}, 0.1), random({96})});
  check(
      "linear with an adapter",
      [](const Tensors& in) {
        return fused::adapted_linear(in[0], in[1], std::nullopt, {in[2], in[3], 0.5},
                                     {.lengths = {96}})
            .front();
      },
      [](const Tensors& in) {
        return at::linear(in[0], in[1]) + at::linear(at::linear(in[0], in[2]), in[3]) * 0.5;
      },
      {x, random({96, 128}, 0.1), random({8, 128}, 0.1), random({96, 8}, 0.3)});
  check("product",
        without_gradients([](const Tensors& in) { return fused::product(in[0], in[1].t()); }),
        without_gradients([](const Tensors& in) { return in[0].mm(in[1].t()); }),
        {random({70, 128}), random({50, 128})});
  const fused::Dropout half = {
      .p = 0.5, .key = fused::dropout_key(1, 2, 3), .rows = {.length = 64}};
  check("dropout",
        without_gradients([=](const Tensors& in) { return fused::dropped(in[0], half); }),
        without_gradients([=](const Tensors& in) { return fused::dropped(in[0], half); }),
        {random({64, 128})});
}

TEST_CASE("rotation, look-up, soft-cap") {
  const at::Tensor angle = random({50, 32});
  const at::Tensor cos = at::cat({angle.cos(), angle.cos()}, -1);
  const at::Tensor sin = at::cat({angle.sin(), angle.sin()}, -1);
  for (const int64_t width : {64, 96}) {
    check(
        cat("rotation of 64 of ", width),
        [](const Tensors& in) { return fused::rotate(in[0], in[1].detach(), in[2].detach()); },
        [](const Tensors& in) {
          const at::Tensor x = in[0].narrow(-1, 0, 64),
                           rest = in[0].narrow(-1, 64, in[0].size(-1) - 64);
          const at::Tensor turned = at::cat({-x.narrow(-1, 32, 32), x.narrow(-1, 0, 32)}, -1);
          return at::cat({x * in[1].detach() + turned * in[2].detach(), rest}, -1);
        },
        {random({2, 50, 4, width}).transpose(1, 2), cos, sin});
  }
  check(
      "look-up", [](const Tensors& in) { return fused::look_up(in[0], in[1], 3); },
      [](const Tensors& in) { return at::embedding(in[0], in[1], 3); },
      {random({40, 64}), at::randint(40, {2, 60}, at::kLong)});
  check(
      "soft-cap", [](const Tensors& in) { return fused::soft_cap(in[0] * 1.0, 2.0); },
      [](const Tensors& in) { return (in[0] / 2.0).tanh() * 2.0; }, {random({37, 100}, 2.0)});
}

TEST_CASE("cross-entropy") {
  const at::Tensor labels = at::randint(1000, {90}, at::kLong);
  labels[7] = -100;
  check(
      "cross-entropy",
      [](const Tensors& in) {
        return fused::cross_entropy_sum(in[0] * 1.0, in[1], {}).to(in[0].scalar_type());
      },
      [](const Tensors& in) {
        return at::cross_entropy_loss(in[0], in[1], {}, at::Reduction::Sum, -100);
      },
      {random({90, 1000}, 3.0), labels});
  // A slice of the vocabulary.
  const fused::LabelRange range = {.first = 400};
  check("cross-entropy's gradient of a slice", without_gradients([=](const Tensors& in) {
          const fused::LogitSums sums = fused::logit_sums(in[0], in[1], range);
          at::Tensor out = poisoned(in[0].sizes(), in[0].scalar_type());
          fused::cross_entropy_gradient(out, in[0], sums.maximum_N + sums.exponentials_N.log(),
                                        in[1], range, at::ones({}, sums.maximum_N.options()));
          return out;
        }),
        without_gradients([=](const Tensors& in) {
          const at::Tensor column = in[1] - range.first;
          const at::Tensor here = column.ge(0).logical_and(column.lt(300));
          const at::Tensor hot = at::zeros_like(in[0]).scatter_(1, (column * here).unsqueeze(1),
                                                                here.to(at::kDouble).unsqueeze(1));
          return (in[0].softmax(-1) - hot).masked_fill(in[1].eq(-100).unsqueeze(1), 0.0);
        }),
        {random({90, 300}, 3.0), labels});
}

TEST_CASE("attention") {
  const HeadShape shape, alone = {.heads = 3, .key_heads = 3};
  const HeadShape latent = {.heads = 4, .key_heads = 4, .width = 96, .values = 64};
  const double scale = 0.125;
  check_attention("attention", alone, {.scale = scale});
  check_attention("attention, grouped queries", shape, {.scale = scale});
  check_attention("attention, window", shape, {.scale = scale, .window = 70});
  check_attention("attention, documents", shape, packed({.scale = scale}, shape));
  check_attention("attention, documents and window", shape,
                  packed({.scale = scale, .window = 20}, shape));
  check_attention("attention, sinks", shape, {.scale = scale}, /*sinks=*/true);
  check_attention("attention, sinks and window", shape, {.scale = scale, .window = 70}, true);
  check_attention("attention, soft-cap", shape, {.scale = scale, .softcap = 1.5});
  check_attention("attention, soft-cap and window", shape,
                  {.scale = scale, .softcap = 1.5, .window = 70});
  check_attention("attention, values narrower than keys", latent, {.scale = scale});
  check_attention("attention, narrower values, documents", latent,
                  packed({.scale = scale}, latent));
}

TEST_CASE("attention of the last queries") {
  for (const int64_t queries : {1, 5}) {
    for (const int64_t window : {0, 70}) {
      for (const bool sinks : {false, true}) {
        const HeadShape shape = {.queries = queries};
        const nn::Look look = {.scale = 0.125, .window = window};
        check(cat("cached: ", queries, " queries", window > 0 ? ", window" : "",
                  sinks ? ", sinks" : ""),
              without_gradients([=](const Tensors& in) {
                return nn::attended({in[0], in[1], in[2]}, look, {.query = shape.keys - queries},
                                    sinks_of(in))
                    .out_BtHV.transpose(1, 2);
              }),
              without_gradients([=](const Tensors& in) { return attention_in_full(in, look); }),
              heads_of(shape, sinks));
      }
    }
  }
}

TEST_CASE("attention in blocks of ranks") {
  const HeadShape shape;
  for (const auto& [name, look] :
       {std::pair{"blocks", nn::Look{.scale = 0.125}},
        {"blocks, window", nn::Look{.scale = 0.125, .window = 90}},
        {"blocks, documents", packed({.scale = 0.125}, shape)},
        {"blocks, documents and window", packed({.scale = 0.125, .window = 90}, shape)}}) {
    check(
        name,
        [look = look](const Tensors& inputs, const Pull& pull) {
          return in_blocks(inputs, pull, look, /*run=*/75);
        },
        by_autograd([look = look](const Tensors& in) { return attention_in_full(in, look); }),
        heads_of(shape));
  }
}

TEST_CASE("experts") {
  Tensors layer = {random({2, 40, 64}), random({kExperts, 64}, 0.3)};
  for (int64_t e = 0; e < kExperts; ++e) {
    layer.insert(layer.end(),
                 {random({48, 64}, 0.1), random({48, 64}, 0.1), random({64, 48}, 0.1)});
  }
  check("experts", experts_of_layer(), experts_in_full(), layer);
  check(
      "weighed down",
      [](const Tensors& in) {
        return nn::weighed_down(in[0], in[1], in[3].to(at::kFloat), in[2], Activation::kSilu);
      },
      [](const Tensors& in) {
        return at::linear(at::silu(in[0]) * in[1], in[2]) * in[3].unsqueeze(1);
      },
      {random({50, 48}), random({50, 48}), random({64, 48}, 0.1), random({50})});
  // Rows of three experts, of which one has none. No row comes near the limit, where rounding
  // decides whether there is a gradient.
  const std::vector<int64_t> counts = {30, 0, 20};
  const fused::Clamp clamp = {1.702, 7.0};
  const auto of_stack = [=](const Tensors& in, const auto& products) {
    return at::cat(products(in[0].split_with_sizes(counts), in[1].split_with_sizes(counts)));
  };
  check(
      "stacked experts",
      [=](const Tensors& in) {
        const nn::StackedExperts stacked = {linear_of("gate_up", in[2], in[3]),
                                            linear_of("down", in[4], in[5]), clamp};
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
      {random({50, 64}), random({50}), random({3, 64, 96}, 0.1), random({3, 96}),
       random({3, 48, 64}, 0.1), random({3, 64})});
}

}  // namespace am

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  const char* named = std::getenv("AM_OPERATORS_DEVICE");
  if (named == nullptr) {
    // Loads the plugin: see Note [Load CUDA first].
    if (const auto problem = am::runtime::why_no_cuda()) {
      std::printf("skipped: %s\n", problem->what.c_str());
      return kSkipped;
    }
    am::device() = at::Device(at::kCUDA, 0);
  } else {
    am::device() = at::Device(named);
    if (am::device().is_cuda()) am::runtime::load_cuda_plugin();
  }
  const char* given = std::getenv("AM_OPERATORS_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("on %s, AM_OPERATORS_SEED=%llu; relative errors of the value and of gradients\n",
              am::device().str().c_str(), static_cast<unsigned long long>(seed));
  at::manual_seed(seed);
  return Catch::Session().run(argc, argv);
}
