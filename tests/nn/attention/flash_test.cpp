// Compares attention by flash kernels with attention by blocks: values, log-sum-exps and all
// gradients, for a range of queries and a range of keys at any positions, and for whole sequences.
// support/flash_stand_in.cpp implements the flash kernels on the host.
#include "am/nn/attention/flash.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "am/nn/attention/attention.h"
#include "am/nn/attention/blocked.h"
#include "am/nn/fused/device.h"
#include "am/nn/rope.h"
#include "support/live_bytes.h"
#include "support/operators.h"

namespace am::nn::flash {
namespace {

constexpr int64_t kBatch = 2, kHeads = 4, kKeyHeads = 2, kKeyWidth = 16;

at::Tensor heads(int64_t count, int64_t length, int64_t width, at::ScalarType dtype = at::kDouble) {
  return at::randn({kBatch, length, count, width}, at::kDouble).to(dtype).transpose(1, 2);
}

// Returns `params` with documents. Each token begins a document with probability `often`. The
// second sequence begins inside a document.
AttentionParams packed(AttentionParams params, int64_t length, double often) {
  at::Tensor positions_BT = at::rand({kBatch, length}).ge(often).to(at::kLong);
  positions_BT[0][0] = 0;
  positions_BT[1][0] = 1;
  params.document_BT = documents(positions_BT);
  params.document_starts =
      std::make_shared<const std::vector<int64_t>>(document_starts(positions_BT));
  return params;
}

struct Made {
  Attended attended;
  HeadGradients gradients;
};

// Runs forward and backward of the queries and keys in `at_hand`. `whole` is the queries' result
// over all keys; it is empty if `at_hand` contains all keys.
Made of_block(const Qkv& at_hand, const AttentionParams& params, const Firsts& firsts,
              const at::Tensor& of_out_BHtV, const std::optional<at::Tensor>& sinks_H,
              const std::optional<Attended>& whole) {
  const at::Tensor& q = at_hand.q_BHtK;
  const int64_t queries = q.size(2), values = at_hand.v_BGsV.size(3);
  const auto unwritten = [&](at::IntArrayRef sizes) {
    return at::full(sizes, std::nan(""), q.options());
  };
  Made made = {{unwritten({kBatch, queries, kHeads, values}), unwritten({kBatch, kHeads, queries})},
               {at::ones_like(q), at::ones_like(at_hand.k_BGsK), at::ones_like(at_hand.v_BGsV)}};
  attend(at_hand, params, firsts, made.attended, sinks_H);
  if (sinks_H) made.gradients.sinks_H = at::ones_like(*sinks_H);
  const Attended& all = whole ? *whole : made.attended;
  const at::Tensor along = (of_out_BHtV * all.out_BtHV.transpose(1, 2)).sum(-1);
  attend_backward(at_hand, params, firsts, {of_out_BHtV, all.lse_BHt, along, all.out_BtHV},
                  made.gradients, sinks_H);
  return made;
}

void check_equal(const Made& got, const Made& wanted) {
  constexpr double kAllowed = 1e-12;
  test::check_close(got.attended.out_BtHV, wanted.attended.out_BtHV, kAllowed);
  const at::Tensor unseen = wanted.attended.lse_BHt.isneginf();
  CHECK(at::equal(got.attended.lse_BHt.isneginf(), unseen));
  test::check_close(got.attended.lse_BHt.masked_fill(unseen, 0.0),
                    wanted.attended.lse_BHt.masked_fill(unseen, 0.0), kAllowed);
  test::check_close(got.gradients.q_BHtK, wanted.gradients.q_BHtK, kAllowed);
  test::check_close(got.gradients.k_BGsK, wanted.gradients.k_BGsK, kAllowed);
  test::check_close(got.gradients.v_BGsV, wanted.gradients.v_BGsV, kAllowed);
  if (wanted.gradients.sinks_H.defined()) {
    test::check_close(got.gradients.sinks_H, wanted.gradients.sinks_H, kAllowed);
  }
}

int64_t up_to(int64_t most) { return at::randint(most + 1, {1}).item<int64_t>(); }

}  // namespace

TEST_CASE("flash attention of any queries to any keys is that by blocks") {
  at::manual_seed(21);
  constexpr int64_t kLength = 40;
  for (int i = 0; i < 400; ++i) {
    const Firsts firsts = {.query = up_to(kLength - 1), .key = up_to(kLength - 1)};
    const int64_t queries = 1 + up_to(kLength - 1 - firsts.query);
    const int64_t keys = 1 + up_to(kLength - 1 - firsts.key);
    const int64_t values = i % 3 == 0 ? 10 : kKeyWidth;
    AttentionParams params = {.scale = 0.3, .window = i % 2 == 0 ? 0 : 1 + up_to(kLength)};
    if (i % 5 < 2) params = packed(params, kLength, i % 5 == 0 ? 0.1 : 0.4);
    INFO(i << ": queries " << firsts.query << " + " << queries << ", keys " << firsts.key << " + "
           << keys << ", window " << params.window
           << (params.document_BT.defined() ? ", documents" : ""));
    const Qkv at_hand = {heads(kHeads, queries, kKeyWidth), heads(kKeyHeads, keys, kKeyWidth),
                         heads(kKeyHeads, keys, values)};
    const at::Tensor of_out = heads(kHeads, queries, values);
    // Random output and log-sum-exp over all keys, as if other ranks held further keys.
    const Attended whole = {heads(kHeads, queries, values).transpose(1, 2),
                            at::randn({kBatch, kHeads, queries}, at::kDouble) + 5.0};
    const Made wanted = of_block(at_hand, params, firsts, of_out, {}, whole);
    const fused::PassForGpu gpu;
    REQUIRE(flash_takes(at_hand, params));
    check_equal(of_block(at_hand, params, firsts, of_out, {}, whole), wanted);
  }
}

TEST_CASE("flash attention joins sinks, and has their gradient") {
  at::manual_seed(22);
  constexpr int64_t kLength = 40;
  for (int i = 0; i < 30; ++i) {
    AttentionParams params = {.scale = 0.3, .window = i % 2 == 0 ? 0 : 1 + up_to(kLength)};
    if (i % 3 == 0) params = packed(params, kLength, 0.2);
    const int64_t queries = 1 + up_to(kLength - 1);
    const Firsts firsts = {.query = kLength - queries};
    const Qkv at_hand = {heads(kHeads, queries, kKeyWidth), heads(kKeyHeads, kLength, kKeyWidth),
                         heads(kKeyHeads, kLength, kKeyWidth)};
    const at::Tensor sinks_H = at::randn({kHeads}, at::kDouble);
    const at::Tensor of_out = heads(kHeads, queries, kKeyWidth);
    const Made wanted = of_block(at_hand, params, firsts, of_out, sinks_H, {});
    const fused::PassForGpu gpu;
    check_equal(of_block(at_hand, params, firsts, of_out, sinks_H, {}), wanted);
  }
}

TEST_CASE("flash attention leaves to blocks what it does not take") {
  const fused::PassForGpu gpu;
  const auto takes = [](int64_t width, int64_t values, const AttentionParams& params) {
    return flash_takes({heads(4, 8, width), heads(2, 8, width), heads(2, 8, values)}, params);
  };
  CHECK(takes(16, 16, {}));
  CHECK(takes(256, 8, {.window = 4}));
  CHECK_FALSE(takes(12, 12, {}));
  CHECK_FALSE(takes(264, 264, {}));
  CHECK_FALSE(takes(16, 24, {}));
  CHECK_FALSE(takes(16, 16, {.softcap = 2.0}));
  CHECK(takes(16, 16, packed({}, 8, 0.5)));
  CHECK_FALSE(takes(16, 16, {.document_BT = at::zeros({kBatch, 8}, at::kLong)}));
}

TEST_CASE("whole sequences by flash attention, in the graph") {
  at::manual_seed(23);
  constexpr int64_t kLength = 150;
  const bool sinks = GENERATE(false, true);
  const auto dtype = GENERATE(at::kDouble, at::kFloat, at::kBFloat16);
  const auto params = GENERATE(AttentionParams{.scale = 0.3, .window = 9},
                               AttentionParams{.scale = 0.3, .window = 0},
                               AttentionParams{.scale = 0.3, .window = 70});
  const bool documents = GENERATE(false, true);
  const AttentionParams seen = documents ? packed(params, kLength, 0.05) : params;
  test::Tensors inputs = {heads(kHeads, kLength, kKeyWidth, dtype),
                          heads(kKeyHeads, kLength, kKeyWidth, dtype),
                          heads(kKeyHeads, kLength, 8, dtype)};
  if (sinks) inputs.push_back(at::randn({kHeads}, at::kDouble).to(dtype));
  const test::Operator attention_of = [&](const test::Tensors& in) {
    const auto own = in.size() > 3 ? std::optional(in[3]) : std::nullopt;
    return attention({in[0], in[1], in[2]}, seen, own);
  };
  const at::Tensor entering = heads(kHeads, kLength, 8, dtype);
  const test::Outcome wanted = test::run(attention_of, inputs, entering);
  const fused::PassForGpu gpu;
  const test::Outcome got = test::run(attention_of, inputs, entering);
  CHECK(got.value.transpose(1, 2).is_contiguous());
  const double allowed = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 1e-5 : 3e-2;
  test::check_close(got.value, wanted.value, allowed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    INFO("gradient of input " << i);
    test::check_close(got.gradients[i], wanted.gradients[i], allowed);
  }
}

TEST_CASE("flash attention keeps its inputs, a number a query, and the output that it gives") {
  const auto leaf = [](int64_t count) {
    return at::randn({2, 300, count, 8}).transpose(1, 2).requires_grad_(true);
  };
  const at::Tensor q = leaf(4), k = leaf(2), v = leaf(2);
  const fused::PassForGpu gpu;
  const test::LiveBytes live;
  const at::Tensor out = blocked_attention(q, k, v, {.scale = 0.5, .window = 50});
  CHECK(live.count() == 2 * 300 * 4 * (8 + 1) * 4);
}

}  // namespace am::nn::flash
