// Replaces ATen's flash attention, which exists only for GPUs, by an implementation on the host.
// The implementation has the same arguments, argument checks and masks
// (aten/src/ATen/native/transformers/cuda/flash_attn), but computes the whole matrix of scores at
// once. With this implementation and nn::fused::PassForGpu, a test on the host runs the code that
// calls the GPU kernels.
//
// Shapes: B sequences of T positions, or N rows of all sequences; H heads of K values; t queries
// and s keys of one sequence.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

namespace am::test {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using OptionalSize = std::optional<c10::SymInt>;

struct Mask {
  // Number of keys that a query sees before (`back`) and after (`ahead`) its own position; -1: all.
  // Positions are aligned so that the last query is at the last key.
  int64_t back, ahead;

  // Adjusts the limits as the code that launches the GPU kernels does: a limit that hides no key of
  // the longest sequence becomes -1, or `longest_k` if the other limit hides keys.
  Mask(bool causal, const OptionalSize& left, const OptionalSize& right, int64_t longest_k)
      : back(left ? left->expect_int() : -1), ahead(right ? right->expect_int() : -1) {
    if (causal) ahead = 0;
    if (back >= longest_k) back = -1;
    if (ahead >= longest_k) ahead = -1;
    if (back < 0 && ahead >= 0) back = longest_k;
    if (back >= 0 && ahead < 0) ahead = longest_k;
  }
  at::Tensor hidden(int64_t queries, int64_t keys) const {
    const at::Tensor apart =
        at::arange(keys).unsqueeze(0) - at::arange(queries).unsqueeze(1) - (keys - queries);
    at::Tensor hidden = at::zeros({queries, keys}, at::kBool);
    if (ahead >= 0) hidden = hidden.logical_or(apart.gt(ahead));
    if (back >= 0) hidden = hidden.logical_or(apart.lt(-back));
    return hidden;
  }
};

void check_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  for (const at::Tensor& each : {q, k, v}) {
    TORCH_CHECK(each.stride(-1) == 1 && each.scalar_type() == q.scalar_type());
    TORCH_CHECK(each.size(-1) == q.size(-1) && each.size(-1) % 8 == 0 && each.size(-1) <= 256);
  }
  TORCH_CHECK(k.sizes() == v.sizes() && q.size(-2) % k.size(-2) == 0);
}

struct Sequence {
  int64_t q, queries, k, keys;  // first row and number of rows, of queries and of keys
};

// Returns the rows of each sequence's queries and keys. q and k are batches [B, T, H, K], or rows
// [N, H, K] of packed sequences that `ends_q` and `ends_k` delimit.
std::vector<Sequence> sequences(const at::Tensor& q, const at::Tensor& k,
                                const OptionalTensor& ends_q, const OptionalTensor& ends_k,
                                int64_t longest_q, int64_t longest_k) {
  std::vector<Sequence> all;
  if (!ends_q || !ends_q->defined()) {
    TORCH_CHECK(q.dim() == 4 && longest_q == q.size(1) && longest_k == k.size(1));
    for (int64_t b = 0; b < q.size(0); ++b) {
      all.push_back({b * longest_q, longest_q, b * longest_k, longest_k});
    }
    return all;
  }
  TORCH_CHECK(q.dim() == 3 && ends_q->scalar_type() == at::kInt && ends_q->is_contiguous());
  TORCH_CHECK(ends_k->scalar_type() == at::kInt && ends_k->sizes() == ends_q->sizes());
  const auto *row = ends_q->const_data_ptr<int32_t>(), *key = ends_k->const_data_ptr<int32_t>();
  for (int64_t i = 0; i + 1 < ends_q->numel(); ++i) {
    all.push_back({row[i], row[i + 1] - row[i], key[i], key[i + 1] - key[i]});
    TORCH_CHECK(all.back().queries <= longest_q && all.back().keys <= longest_k);
  }
  return all;
}

at::Tensor in_rows(const at::Tensor& x) { return x.dim() == 4 ? x.flatten(0, 1) : x; }

at::ScalarType wide(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Returns `count` rows, starting at row `first`, as [H, count, K]. Each key head is repeated for
// the query heads that share it.
at::Tensor of(const at::Tensor& rows_NHK, int64_t first, int64_t count, int64_t heads) {
  return rows_NHK.narrow(0, first, count)
      .transpose(0, 1)
      .to(wide(rows_NHK))
      .repeat_interleave(heads / rows_NHK.size(1), 0);
}

at::Tensor scores(const at::Tensor& q_HtK, const at::Tensor& k_HsK, const Mask& mask,
                  double scale) {
  return (at::bmm(q_HtK, k_HsK.transpose(1, 2)) * scale)
      .masked_fill(mask.hidden(q_HtK.size(1), k_HsK.size(1)),
                   -std::numeric_limits<double>::infinity());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& ends_q,
    const OptionalTensor& ends_k, c10::SymInt longest_q, c10::SymInt longest_k, double dropout,
    bool causal, bool debug, std::optional<double> scale, OptionalSize left, OptionalSize right,
    const OptionalTensor& used_k, const OptionalTensor& slopes) {
  TORCH_CHECK(dropout == 0.0 && !debug && !used_k && !slopes);
  check_heads(q, k, v);
  // The causal mask hides no key from a single query, which is aligned with the last key.
  const Mask mask(causal && longest_q != 1, left, right, longest_k.expect_int());
  const at::Tensor q_rows = in_rows(q), k_rows = in_rows(k), v_rows = in_rows(v);
  const int64_t heads = q.size(-2);
  // As in the GPU kernels, rows outside of all sequences are not written. They are NaN here, so
  // that a test fails if they are used.
  at::Tensor out = at::full(q_rows.sizes(), std::nan(""), q.options());
  at::Tensor lse = at::full({heads, q_rows.size(0)}, std::nan(""), q.options().dtype(wide(q)));
  for (const Sequence& each :
       sequences(q, k, ends_q, ends_k, longest_q.expect_int(), longest_k.expect_int())) {
    const at::Tensor made = scores(of(q_rows, each.q, each.queries, heads),
                                   of(k_rows, each.k, each.keys, heads), mask, *scale);
    const at::Tensor sums = made.logsumexp(-1);
    const at::Tensor p = (made - sums.unsqueeze(-1)).exp().nan_to_num(0.0);
    out.narrow(0, each.q, each.queries)
        .copy_(at::bmm(p, of(v_rows, each.k, each.keys, heads)).transpose(0, 1));
    // The log-sum-exp of a query without keys is +inf, as in the GPU kernels.
    lse.narrow(1, each.q, each.queries).copy_(sums.masked_fill(sums.isneginf(), INFINITY));
  }
  if (q.dim() == 4) {
    out = out.view(q.sizes());
    lse = lse.view({heads, q.size(0), -1}).transpose(0, 1).contiguous();
  }
  const at::Tensor none = at::empty({0});
  return {out, lse, none, none, none};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& of_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, const at::Tensor& ends_q,
    const at::Tensor& ends_k, c10::SymInt longest_q, c10::SymInt longest_k, double dropout,
    bool causal, const at::Tensor& /*seed*/, const at::Tensor& /*unused*/,
    std::optional<double> scale, OptionalSize left, OptionalSize right) {
  TORCH_CHECK(dropout == 0.0);
  check_heads(q, k, v);
  TORCH_CHECK(out.sizes() == q.sizes() && out.scalar_type() == q.scalar_type());
  TORCH_CHECK(of_out.sizes() == q.sizes() && of_out.scalar_type() == q.scalar_type());
  TORCH_CHECK(lse.is_contiguous() && lse.scalar_type() == wide(q));
  const Mask mask(causal, left, right, longest_k.expect_int());
  const at::Tensor q_rows = in_rows(q), k_rows = in_rows(k), v_rows = in_rows(v);
  const at::Tensor out_rows = in_rows(out), of_rows = in_rows(of_out);
  const int64_t heads = q.size(-2), key_heads = k.size(-2);
  const at::Tensor lse_HN = lse.dim() == 3 ? lse.transpose(0, 1).flatten(1, 2) : lse;
  const auto unwritten = [](const at::Tensor& x) {
    return at::full(x.sizes(), std::nan(""), x.options());
  };
  at::Tensor of_q = unwritten(q_rows), of_k = unwritten(k_rows), of_v = unwritten(v_rows);
  for (const Sequence& each :
       sequences(q, k, ends_q, ends_k, longest_q.expect_int(), longest_k.expect_int())) {
    const at::Tensor own_q = of(q_rows, each.q, each.queries, heads);
    const at::Tensor own_k = of(k_rows, each.k, each.keys, heads);
    const at::Tensor own_v = of(v_rows, each.k, each.keys, heads);
    const at::Tensor own_of = of(of_rows, each.q, each.queries, heads);
    const at::Tensor own_lse = lse_HN.narrow(1, each.q, each.queries).unsqueeze(-1);
    const at::Tensor p = (scores(own_q, own_k, mask, *scale) - own_lse).exp();
    const at::Tensor along =
        (own_of * of(out_rows, each.q, each.queries, heads)).sum(-1, /*keepdim=*/true);
    const at::Tensor of_scores = p * (at::bmm(own_of, own_v.transpose(1, 2)) - along) * *scale;
    const auto summed = [&](const at::Tensor& x_HsK) {
      return x_HsK.unflatten(0, {key_heads, -1}).sum(1).transpose(0, 1);
    };
    of_q.narrow(0, each.q, each.queries).copy_(at::bmm(of_scores, own_k).transpose(0, 1));
    of_k.narrow(0, each.k, each.keys).copy_(summed(at::bmm(of_scores.transpose(1, 2), own_q)));
    of_v.narrow(0, each.k, each.keys).copy_(summed(at::bmm(p.transpose(1, 2), own_of)));
  }
  return {of_q.view(q.sizes()), of_k.view(k.sizes()), of_v.view(v.sizes())};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_flash_attention_forward", TORCH_FN(forward));
  library.impl("_flash_attention_backward", TORCH_FN(backward));
}

}  // namespace
}  // namespace am::test
