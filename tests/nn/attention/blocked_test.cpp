// Compares attention by blocks with attention by full scores: values and gradients. Also tests how
// many bytes attention by blocks saves for backward.
#include "am/nn/attention/blocked.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "support/live_bytes.h"
#include "support/operators.h"

namespace am {
namespace {

struct HeadShape {
  int64_t batch, heads, key_heads, length, width, value_width;
};

at::Tensor in_full(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK, const at::Tensor& v_BGTV,
                   const nn::AttentionParams& params) {
  const auto wide = q_BHTK.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const int64_t repeats = q_BHTK.size(1) / k_BGTK.size(1), length = q_BHTK.size(2);
  const at::Tensor k = k_BGTK.to(wide).repeat_interleave(repeats, 1);
  const at::Tensor v = v_BGTV.to(wide).repeat_interleave(repeats, 1);
  at::Tensor scores = at::matmul(q_BHTK.to(wide), k.transpose(2, 3)) * params.scale;
  if (params.softcap) scores = (scores / *params.softcap).tanh() * *params.softcap;
  if (!params.slopes.empty()) {
    // As in BLOOM, the bias depends on the key's position. blocked_attention's bias depends on the
    // distance between query and key. For one query, the two biases differ by a constant, so the
    // softmax is the same.
    scores = scores + at::tensor(params.slopes, wide).view({-1, 1, 1}) * at::arange(length, wide);
  }
  const at::Tensor all = at::ones({length, length}, at::kBool);
  at::Tensor seen = all.tril();
  if (params.window > 0) seen = seen.logical_and(all.triu(1 - params.window));
  if (params.document_BT.defined()) {
    const at::Tensor same =
        params.document_BT.unsqueeze(2).eq(params.document_BT.unsqueeze(1)).unsqueeze(1);
    seen = seen.logical_and(same);
  }
  scores = scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  return at::matmul(scores.softmax(-1), v).to(q_BHTK.scalar_type());
}

void compare_with_full(const HeadShape& shape, at::ScalarType dtype,
                       const nn::AttentionParams& params) {
  INFO(at::toString(dtype) << " T " << shape.length << " H " << shape.heads << " window "
                           << params.window << " soft-cap " << params.softcap.value_or(0.0)
                           << (params.document_BT.defined() ? " documents" : "")
                           << (params.slopes.empty() ? "" : " ALiBi"));
  const auto heads = [&](int64_t count, int64_t width) {
    return at::randn({shape.batch, shape.length, count, width}).to(dtype).transpose(1, 2);
  };
  const std::vector<at::Tensor> inputs = {heads(shape.heads, shape.width),
                                          heads(shape.key_heads, shape.width),
                                          heads(shape.key_heads, shape.value_width)};
  const at::Tensor entering =
      at::arange(inputs[0].numel() / shape.width * shape.value_width, at::kDouble)
          .cos()
          .view({shape.batch, shape.heads, shape.length, shape.value_width})
          .to(dtype);
  const auto of = [&](const auto& attention) {
    return test::run(
        [&](const test::Tensors& in) { return attention(in[0], in[1], in[2], params); }, inputs,
        entering);
  };
  const auto by_blocks = [](const auto&... in) { return nn::blocked_attention(in...); };
  const test::Outcome ours = of(by_blocks), full = of(in_full);
  const double allowed = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 1e-5 : 3e-2;
  test::check_close(ours.value, full.value, allowed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    INFO("gradient of "
         << "qkv"[i]);
    test::check_close(ours.gradients[i], full.gradients[i], allowed);
  }
}

// Returns document indices, [batch, length]. The first sequence has documents of seven tokens.
// Each further sequence has a document of one token and a document of the remaining tokens.
at::Tensor packed(const HeadShape& shape) {
  const at::Tensor document_BT = at::ones({shape.batch, shape.length}, at::kLong);
  document_BT.select(0, 0).copy_(at::arange(shape.length).div(7, "floor"));
  document_BT.select(1, 0).zero_();
  return document_BT;
}

}  // namespace

TEST_CASE("attention by blocks is attention in full") {
  at::manual_seed(11);
  // The sequences are shorter than one block of 128 positions, as long as one block, and longer
  // than two blocks. The shapes also cover grouped heads, and values wider than keys.
  const auto shape = GENERATE(HeadShape{2, 4, 2, 7, 8, 8}, HeadShape{1, 2, 2, 128, 4, 4},
                              HeadShape{2, 6, 2, 300, 4, 6});
  const auto dtype = GENERATE(at::kFloat, at::kDouble, at::kBFloat16);
  for (const int64_t window : {0, 1, 5, 129, 1000}) {
    compare_with_full(shape, dtype, {.scale = 0.3, .window = window});
  }
  compare_with_full(shape, dtype, {.scale = 0.3, .softcap = 0.7});
  compare_with_full(shape, dtype, {.scale = 0.3, .document_BT = packed(shape)});
  compare_with_full(shape, dtype,
                    {.scale = 0.3, .softcap = 0.7, .window = 5, .document_BT = packed(shape)});
  std::vector<double> slopes;
  for (int64_t head = 0; head < shape.heads; ++head)
    slopes.push_back(0.5 / static_cast<double>(head + 1));
  compare_with_full(shape, dtype, {.scale = 0.3, .slopes = slopes});
  compare_with_full(shape, dtype,
                    {.scale = 0.3, .window = 129, .slopes = slopes, .document_BT = packed(shape)});
}

TEST_CASE("attention by blocks keeps its inputs and a number a query") {
  const auto leaf = [](int64_t heads) {
    return at::randn({2, 300, heads, 8}).transpose(1, 2).requires_grad_(true);
  };
  const at::Tensor q = leaf(4), k = leaf(2), v = leaf(2);
  const test::LiveBytes live;
  const at::Tensor out = nn::blocked_attention(q, k, v, {.scale = 0.5, .window = 50});
  CHECK(live.count() == 2 * 300 * 4 * (8 + 1) * 4);
}

TEST_CASE("a sink is a key that every query sees, without a value") {
  at::manual_seed(12);
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble);
  const int64_t window = GENERATE(0, 9);
  constexpr int64_t kBatch = 2, kHeads = 4, kKeyHeads = 2, kLength = 150, kWidth = 8;
  const nn::AttentionParams params = {.scale = 0.3, .window = window};
  const auto heads = [&](int64_t count) {
    return at::randn({kBatch, kLength, count, kWidth}).to(dtype).transpose(1, 2);
  };
  const std::vector<at::Tensor> inputs = {heads(kHeads), heads(kKeyHeads), heads(kKeyHeads),
                                          at::randn({kHeads}).to(dtype)};
  const test::Operator ours = [&](const test::Tensors& in) {
    return nn::blocked_attention(in[0], in[1], in[2], params, in[3]);
  };
  const test::Operator full = [&](const test::Tensors& in) {
    const at::Tensor k = in[1].repeat_interleave(2, 1), v = in[2].repeat_interleave(2, 1);
    const at::Tensor all = at::ones({kLength, kLength}, at::kBool);
    at::Tensor seen = all.tril();
    if (window > 0) seen = seen.logical_and(all.triu(1 - window));
    const at::Tensor scores =
        (at::matmul(in[0], k.transpose(2, 3)) * params.scale)
            .masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
    const at::Tensor sinks = in[3].view({1, -1, 1, 1}).expand({kBatch, -1, kLength, 1});
    const at::Tensor p = at::cat({scores, sinks}, -1).softmax(-1);
    return at::matmul(p.narrow(-1, 0, kLength), v);
  };
  const at::Tensor entering = at::randn({kBatch, kHeads, kLength, kWidth}).to(dtype);
  const test::Outcome a = test::run(ours, inputs, entering), b = test::run(full, inputs, entering);
  const double allowed = dtype == at::kDouble ? 1e-12 : 1e-5;
  test::check_close(a.value, b.value, allowed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    INFO("gradient of input " << i);
    test::check_close(a.gradients[i], b.gradients[i], allowed);
  }
}

}  // namespace am
