// Compares every variant of attention with reference attention, which stores the whole matrix of
// scores.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/nn/attention/attention.h"
#include "am/nn/attention/block_kernel.h"
#include "am/nn/attention/blocked.h"
#include "am/nn/rope.h"
#include "am/parallel/cp/ring.h"
#include "cuda/operator_check.h"

namespace am {
namespace {

using test::by_autograd;
using test::check_operator;
using test::operators_device;
using test::Outcome;
using test::poisoned;
using test::Pull;
using test::random_input;
using test::Tensors;
using test::without_gradients;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// Returns the result of reference attention, which computes the whole matrix of scores on the host
// and masks it. The reference separates documents by document_BT and does not use document_starts.
at::Tensor attention_in_full(const Tensors& in, const nn::AttentionParams& params) {
  const int64_t repeats = in[0].size(1) / in[1].size(1);
  const int64_t queries = in[0].size(2), keys = in[1].size(2);
  const at::Tensor k = in[1].repeat_interleave(repeats, 1);
  const at::Tensor v = in[2].repeat_interleave(repeats, 1);
  at::Tensor scores = at::matmul(in[0], k.transpose(2, 3)) * params.scale;
  if (params.softcap) scores = (scores / *params.softcap).tanh() * *params.softcap;
  // The queries are those of the last positions.
  const at::Tensor query = at::arange(keys - queries, keys).unsqueeze(1);
  const at::Tensor key = at::arange(keys).unsqueeze(0);
  at::Tensor hidden = key.gt(query);
  if (params.window > 0) hidden = hidden.logical_or(key.le(query - params.window));
  if (params.document_BT.defined()) {
    const at::Tensor own = params.document_BT.narrow(1, keys - queries, queries);
    const at::Tensor other = params.document_BT.narrow(1, 0, keys);
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
    return random_input({shape.batch, length, count, width}).transpose(1, 2);
  };
  Tensors all = {heads(shape.heads, shape.queries, shape.width),
                 heads(shape.key_heads, shape.keys, shape.width),
                 heads(shape.key_heads, shape.keys, shape.values)};
  if (sinks) all.push_back(random_input({shape.heads}));
  return all;
}

// Returns `params` with documents that begin at random positions.
nn::AttentionParams packed(nn::AttentionParams params, const HeadShape& shape) {
  const at::Tensor positions_BT = at::rand({shape.batch, shape.keys}).ge(0.03).to(at::kLong);
  params.document_BT = nn::documents(positions_BT);
  params.document_starts =
      std::make_shared<const std::vector<int64_t>>(nn::document_starts(positions_BT));
  return params;
}

nn::AttentionParams on_device(nn::AttentionParams params) {
  if (params.document_BT.defined()) params.document_BT = params.document_BT.to(operators_device());
  return params;
}

std::optional<at::Tensor> sinks_of(const Tensors& in) {
  return in.size() > 3 ? std::optional(in[3]) : std::nullopt;
}

void check_attention(const std::string& name, const HeadShape& shape,
                     const nn::AttentionParams& params, bool sinks = false) {
  check_operator(
      name,
      [=](const Tensors& in) {
        return nn::attention({in[0], in[1], in[2]}, on_device(params), sinks_of(in));
      },
      [=](const Tensors& in) { return attention_in_full(in, params); }, heads_of(shape, sinks));
}

// Computes attention as under context parallelism: in blocks of `run` queries and `run` keys, whose
// results are merged.
Outcome in_blocks(const Tensors& inputs, const Pull& pull, const nn::AttentionParams& whole_params,
                  int64_t run) {
  const at::NoGradGuard no_grad;
  const nn::AttentionParams params = on_device(whole_params);
  const at::Tensor& q = inputs[0];
  const int64_t batch = q.size(0), heads = q.size(1), length = q.size(2);
  const auto part = [&](const at::Tensor& x, int64_t i) { return x.narrow(2, i * run, run); };
  const auto block = [&](int64_t i, int64_t j) -> nn::Qkv {
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
    attend(block(i, j), params, firsts, one);
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
        block(i, j), params, firsts,
        {part(entering, i), part(all.lse_BHt, i), part(along, i),
         all.out_BtHV.narrow(1, i * run, run)},
        {part(made.gradients[0], i), part(made.gradients[1], j), part(made.gradients[2], j)});
  });
  return made;
}

// Returns the median seconds of a forward and backward pass on the device.
double seconds_of(const std::function<Outcome()>& pass) {
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pass().gradients.at(0).flatten()[0].item<double>();  // waits for the device
    if (i >= 2) {
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  std::ranges::sort(seconds);
  return seconds.at(seconds.size() / 2);
}

// Prints the rate of a pass. For each head and each pair of a query and a visible key, a pass
// computes seven dot products of length `width`: two in forward and five in backward.
void print_rate(const char* name, double pairs, const HeadShape& shape,
                const std::function<Outcome()>& pass) {
  const double operations = 14.0 * pairs * static_cast<double>(shape.heads * shape.width);
  std::printf("rate of %s: %.4f TFLOP/s\n", name, operations / seconds_of(pass) / 1e12);
}

}  // namespace

TEST_CASE("attention") {
  const HeadShape shape, alone = {.heads = 3, .key_heads = 3};
  const HeadShape latent = {.heads = 4, .key_heads = 4, .width = 96, .values = 64};
  const double scale = 0.125;
  check_attention("attention", alone, {.scale = scale});
  check_attention("attention, grouped queries", shape, {.scale = scale});
  check_attention("attention, window", shape, {.scale = scale, .window = 70});
  check_attention("attention, a window that divides the length",
                  {.batch = 2, .queries = 3072, .keys = 3072}, {.scale = scale, .window = 1024});
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
        const nn::AttentionParams params = {.scale = 0.125, .window = window};
        check_operator(
            cat("cached: ", queries, " queries", window > 0 ? ", window" : "",
                sinks ? ", sinks" : ""),
            without_gradients([=](const Tensors& in) {
              return nn::attended({in[0], in[1], in[2]}, params, {.query = shape.keys - queries},
                                  sinks_of(in))
                  .out_BtHV.transpose(1, 2);
            }),
            without_gradients([=](const Tensors& in) { return attention_in_full(in, params); }),
            heads_of(shape, sinks));
      }
    }
  }
}

TEST_CASE("attention in blocks of ranks") {
  const HeadShape shape;
  for (const auto& [name, params] :
       {std::pair{"blocks", nn::AttentionParams{.scale = 0.125}},
        {"blocks, window", nn::AttentionParams{.scale = 0.125, .window = 90}},
        {"blocks, documents", packed({.scale = 0.125}, shape)},
        {"blocks, documents and window", packed({.scale = 0.125, .window = 90}, shape)}}) {
    check_operator(
        name,
        [params = params](const Tensors& inputs, const Pull& pull) {
          return in_blocks(inputs, pull, params, /*run=*/75);
        },
        by_autograd([params = params](const Tensors& in) { return attention_in_full(in, params); }),
        heads_of(shape));
  }
}

// Prints rates. scripts/gpu_check compares them with the rate of a plain causal mask. The test runs
// only if its tag is selected.
TEST_CASE("rates of attention", "[.rates]") {
  const bool on_host = operators_device().is_cpu();
  const int64_t length = on_host ? 256 : 16384, window = length / 4, document = length / 8;
  const HeadShape shape = {.batch = 1,
                           .heads = on_host ? 4 : 32,
                           .key_heads = on_host ? 2 : 8,
                           .queries = length,
                           .keys = length,
                           .width = 128,
                           .values = 128};
  Tensors inputs;
  for (const at::Tensor& each : heads_of(shape)) {
    inputs.push_back(each.to(operators_device(), at::kBFloat16));
  }
  at::Tensor entering;
  const Pull pull = [&](const at::Tensor& value) {
    if (!entering.defined()) entering = at::randn_like(value);
    return entering;
  };
  const nn::AttentionParams plain = {.scale = 0.125};
  nn::AttentionParams windowed = plain;
  windowed.window = window;
  at::Tensor positions_BT = at::arange(length).remainder(document).unsqueeze(0);
  nn::AttentionParams packed = plain;
  packed.document_BT = nn::documents(positions_BT);
  packed.document_starts =
      std::make_shared<const std::vector<int64_t>>(nn::document_starts(positions_BT));
  const auto in_full = [&](const nn::AttentionParams& params) {
    return [&inputs, &pull, params = on_device(params)] {
      return by_autograd([params](const Tensors& in) {
        return nn::attention({in[0], in[1], in[2]}, params);
      })(inputs, pull);
    };
  };
  const auto causal = [](int64_t positions) {
    return static_cast<double>(positions) * static_cast<double>(positions + 1) / 2;
  };
  print_rate("causal", causal(length), shape, in_full(plain));
  print_rate("a window of a quarter",
             causal(window) + static_cast<double>((length - window) * window), shape,
             in_full(windowed));
  print_rate("eight documents", 8 * causal(document), shape, in_full(packed));
  print_rate("four blocks of ranks", causal(length), shape,
             [&] { return in_blocks(inputs, pull, plain, length / 4); });
}

}  // namespace am
