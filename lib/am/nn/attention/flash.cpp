#include "am/nn/attention/flash.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/mesh/shard.h"
#include "am/model/gpu_operators.h"
#include "am/nn/fused/device.h"

namespace am::nn {
namespace {

constexpr double kUnseen = -std::numeric_limits<double>::infinity();

// How far the kernels' queries look, from the diagonal that ends at the last query and the last
// key: so many keys back and ahead. -1: all.
struct Reach {
  int64_t back = -1, ahead = -1;
  auto operator<=>(const Reach&) const = default;
};

// Queries and keys of one sequence, positions of the whole of it: each query sees a key.
struct Span {
  mesh::Extent queries, keys;
  Reach reach;
};

// Note [Spans]: where queries end later than keys do, the diagonal is behind the keys, and windows
// reach back from there. The kernels take a reach of more keys than there are for one of as many as
// there are, which is not far enough if queries are more than keys. So queries whose window has all
// keys are a span of their own; then the others are at most as many as the keys.
std::vector<Span> spans_of(const mesh::Extent& queries, const mesh::Extent& keys, int64_t window) {
  std::vector<Span> spans;
  const auto first_key = [&](int64_t query) {
    return window > 0 ? std::max(keys.offset, query - window + 1) : keys.offset;
  };
  const auto add = [&](int64_t begin, int64_t end, int64_t keys_end, const Reach& reach) {
    if (begin >= end) return;
    const int64_t first = first_key(begin);
    spans.push_back({{begin, end - begin}, {first, keys_end - first}, reach});
  };
  const int64_t keys_end = keys.offset + keys.size;
  const int64_t begin = std::max(queries.offset, keys.offset);
  const int64_t last = queries.offset + queries.size;
  const int64_t end = window > 0 ? std::min(last, keys_end - 1 + window) : last;
  if (begin >= end || keys.size == 0) return spans;
  const int64_t middle = std::clamp(keys_end, begin, end);
  add(begin, middle, middle, {window > 0 ? window - 1 : -1, 0});
  const int64_t edge = window > 0 ? std::clamp(keys.offset + window, middle, end) : end;
  add(middle, edge, keys_end, {});
  add(edge, end, keys_end, {window - 1 - (end - keys_end), -1});
  return spans;
}

// Rows of [N, ..]: neighbours, or wherever they are.
class Rows {
 public:
  Rows(const std::vector<mesh::Extent>& runs, const at::Device& device) {
    first_ = runs.front().offset;
    bool neighbours = true;
    for (const mesh::Extent& run : runs) {
      neighbours = neighbours && run.offset == first_ + count_;
      count_ += run.size;
    }
    if (neighbours) return;
    const at::Tensor index = at::empty({count_}, at::kLong);
    auto* next = index.mutable_data_ptr<int64_t>();
    for (const mesh::Extent& run : runs) {
      for (int64_t i = 0; i < run.size; ++i) *next++ = run.offset + i;
    }
    index_ = fused::uploaded(index, device);
  }

  at::Tensor of(const at::Tensor& x, int64_t dim = 0) const {
    return index_.defined() ? x.index_select(dim, index_) : x.narrow(dim, first_, count_);
  }
  void put(const at::Tensor& all, const at::Tensor& part, int64_t dim = 0) const {
    if (index_.defined()) {
      all.index_copy_(dim, index_, part);
    } else {
      all.narrow(dim, first_, count_).copy_(part);
    }
  }
  void add(const at::Tensor& all, const at::Tensor& part) const {
    if (index_.defined()) {
      all.index_add_(0, index_, part.to(all.scalar_type()));
    } else {
      all.narrow(0, first_, count_).add_(part);
    }
  }

 private:
  int64_t first_ = 0, count_ = 0;
  at::Tensor index_;
};

// Sequences of their own lengths, one after the other.
class Lengths {
 public:
  Lengths(const std::vector<mesh::Extent>& runs, const at::Device& device) {
    const at::Tensor ends = at::zeros({static_cast<int64_t>(runs.size()) + 1}, at::kInt);
    auto* end = ends.mutable_data_ptr<int32_t>();
    for (const mesh::Extent& run : runs) {
      end[1] = end[0] + static_cast<int32_t>(run.size);
      ++end;
      longest = std::max(longest, run.size);
    }
    cumulative = fused::uploaded(ends, device);
  }

  at::Tensor cumulative;
  int64_t longest = 0;
};

// ---- the kernels
// ------------------------------------------------------------------------------------

// q_BTHK, or q_NHK of sequences of their own lengths; lse_BHT, or lse_HN.
struct Inputs {
  at::Tensor q, k, v;
};
struct Outputs {
  at::Tensor out, lse;
};
struct Sizes {
  std::optional<at::Tensor> cumulative_q = {}, cumulative_k = {};
  int64_t longest_q = 0, longest_k = 0;
};

std::optional<int64_t> given(int64_t keys) {
  return keys < 0 ? std::nullopt : std::optional<int64_t>(keys);
}

Outputs forward(const Inputs& in, const Sizes& sizes, const Reach& reach, double scale) {
  auto [out, lse, seed, unused, mask] = at::_flash_attention_forward(
      in.q, in.k, in.v, sizes.cumulative_q, sizes.cumulative_k, sizes.longest_q, sizes.longest_k,
      /*dropout_p=*/0.0, /*is_causal=*/reach.ahead == 0, /*return_debug_mask=*/false, scale,
      given(reach.back), given(reach.ahead));
  return {std::move(out), std::move(lse)};
}

// The kernels take the logarithms for dense.
Inputs backward(const at::Tensor& of_out, const Inputs& in, const Outputs& made, const Sizes& sizes,
                const Reach& reach, double scale) {
  const at::Tensor no_seed = at::empty({0}, in.q.options().dtype(at::kUInt64));
  auto [of_q, of_k, of_v] = at::_flash_attention_backward(
      of_out, in.q, in.k, in.v, made.out, made.lse.contiguous(),
      sizes.cumulative_q.value_or(at::Tensor()), sizes.cumulative_k.value_or(at::Tensor()),
      sizes.longest_q, sizes.longest_k, /*dropout_p=*/0.0, /*is_causal=*/reach.ahead == 0, no_seed,
      no_seed, scale, given(reach.back), given(reach.ahead));
  return {std::move(of_q), std::move(of_k), std::move(of_v)};
}

// ---- around them
// ------------------------------------------------------------------------------------

at::Tensor padded(const at::Tensor& x, int64_t width) {
  const int64_t missing = width - x.size(-1);
  return missing == 0 ? x : at::constant_pad_nd(x, {0, missing});
}

at::Tensor dense_in_width(const at::Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

// [B, H, t, X] -> [B, t, H, X], in which each head's elements are neighbours.
at::Tensor by_position(const at::Tensor& x_BHtX) { return dense_in_width(x_BHtX.transpose(1, 2)); }

class Flash {
 public:
  Flash(const Heads& heads, const Look& look, const Firsts& firsts)
      : look_(look),
        firsts_(firsts),
        batch_(heads.q_BHtK.size(0)),
        queries_(heads.q_BHtK.size(2)),
        keys_(heads.k_BGsK.size(2)),
        width_(heads.q_BHtK.size(3)),
        values_(heads.v_BGsV.size(3)),
        in_{by_position(heads.q_BHtK), by_position(heads.k_BGsK),
            by_position(padded(heads.v_BGsV, width_))} {}

  void attend(const Attended& attended) const {
    if (look_.document_BT.defined()) return attend_to_documents(attended);
    const std::vector<Span> spans = whole_spans();
    int64_t seeing = 0;
    for (const Span& span : spans) seeing += span.queries.size;
    if (seeing < queries_) {
      attended.out_BtHV.zero_();
      attended.lse_BHt.fill_(kUnseen);
    }
    for (const Span& span : spans) {
      const auto [out, lse] = forward(seen(span), sizes(span), span.reach, look_.scale);
      const auto [row, rows] = local(span.queries, firsts_.query);
      attended.out_BtHV.narrow(1, row, rows).copy_(out.narrow(-1, 0, values_));
      attended.lse_BHt.narrow(2, row, rows).copy_(lse);
    }
  }

  void attend_backward(const AttendedGradient& gradient, const HeadGradients& sums) const {
    if (look_.document_BT.defined()) return documents_backward(gradient, sums);
    const at::Tensor of_out_BtHK = of_out(gradient), out_BtHK = out(gradient);
    for (const Span& span : whole_spans()) {
      const auto [row, rows] = local(span.queries, firsts_.query);
      const auto [key, keys] = local(span.keys, firsts_.key);
      const Inputs of =
          backward(of_out_BtHK.narrow(1, row, rows), seen(span),
                   {out_BtHK.narrow(1, row, rows), gradient.lse_BHt.narrow(2, row, rows)},
                   sizes(span), span.reach, look_.scale);
      sums.q_BHtK.narrow(2, row, rows).add_(of.q.transpose(1, 2));
      sums.k_BGsK.narrow(2, key, keys).add_(of.k.transpose(1, 2));
      sums.v_BGsV.narrow(2, key, keys).add_(of.v.narrow(-1, 0, values_).transpose(1, 2));
    }
  }

 private:
  // ---- no documents

  std::vector<Span> whole_spans() const {
    return spans_of({firsts_.query, queries_}, {firsts_.key, keys_}, look_.window);
  }
  static mesh::Extent local(const mesh::Extent& positions, int64_t first) {
    return {positions.offset - first, positions.size};
  }
  Inputs seen(const Span& span) const {
    const auto [row, rows] = local(span.queries, firsts_.query);
    const auto [key, keys] = local(span.keys, firsts_.key);
    return {in_.q.narrow(1, row, rows), in_.k.narrow(1, key, keys), in_.v.narrow(1, key, keys)};
  }
  static Sizes sizes(const Span& span) {
    return {.longest_q = span.queries.size, .longest_k = span.keys.size};
  }

  // ---- documents, of all sequences in rows one after the other

  struct Packed {
    Rows queries, keys;
    Lengths query_lengths, key_lengths;
    Reach reach;
    Sizes sizes() const {
      return {query_lengths.cumulative, key_lengths.cumulative, query_lengths.longest,
              key_lengths.longest};
    }
    Inputs of(const Inputs& in) const { return {queries.of(in.q), keys.of(in.k), keys.of(in.v)}; }
  };

  std::vector<Packed> packed() const {
    struct Runs {
      std::vector<mesh::Extent> queries, keys;
    };
    std::map<Reach, Runs> by_reach;
    const std::vector<int64_t>& starts = *look_.document_starts;
    const int64_t length = look_.document_BT.size(1);
    for (size_t i = 0; i < starts.size(); ++i) {
      const int64_t sequence = starts[i] / length, end_of_all = (sequence + 1) * length;
      const int64_t end = i + 1 < starts.size() ? std::min(starts[i + 1], end_of_all) : end_of_all;
      const int64_t first = starts[i] - sequence * length, last = end - sequence * length;
      const auto part = [&](int64_t from, int64_t count) -> mesh::Extent {
        const int64_t begin = std::max(first, from);
        return {begin, std::max<int64_t>(0, std::min(last, from + count) - begin)};
      };
      for (const Span& span :
           spans_of(part(firsts_.query, queries_), part(firsts_.key, keys_), look_.window)) {
        Runs& runs = by_reach[span.reach];
        const auto [row, rows] = local(span.queries, firsts_.query);
        const auto [key, keys] = local(span.keys, firsts_.key);
        runs.queries.push_back({sequence * queries_ + row, rows});
        runs.keys.push_back({sequence * keys_ + key, keys});
      }
    }
    const at::Device device = in_.q.device();
    std::vector<Packed> all;
    for (const auto& [reach, runs] : by_reach) {
      all.push_back({Rows(runs.queries, device), Rows(runs.keys, device),
                     Lengths(runs.queries, device), Lengths(runs.keys, device), reach});
    }
    return all;
  }

  static at::Tensor in_rows(const at::Tensor& x_BtHX) { return x_BtHX.flatten(0, 1); }
  Inputs inputs_in_rows() const { return {in_rows(in_.q), in_rows(in_.k), in_rows(in_.v)}; }

  void attend_to_documents(const Attended& attended) const {
    const Inputs in = inputs_in_rows();
    const at::Tensor out_NHK = at::zeros_like(in.q);
    const int64_t heads = in.q.size(1);
    const at::Tensor lse_HN = at::full({heads, in.q.size(0)}, kUnseen, attended.lse_BHt.options());
    for (const Packed& each : packed()) {
      const Outputs made = forward(each.of(in), each.sizes(), each.reach, look_.scale);
      each.queries.put(out_NHK, made.out);
      each.queries.put(lse_HN, made.lse, 1);
    }
    attended.out_BtHV.copy_(out_NHK.unflatten(0, {batch_, queries_}).narrow(-1, 0, values_));
    attended.lse_BHt.copy_(lse_HN.unflatten(1, {batch_, queries_}).transpose(0, 1));
  }

  void documents_backward(const AttendedGradient& gradient, const HeadGradients& sums) const {
    const Inputs in = inputs_in_rows();
    const at::Tensor of_out_NHK = in_rows(of_out(gradient)), out_NHK = in_rows(out(gradient));
    const at::Tensor lse_HN = gradient.lse_BHt.transpose(0, 1).flatten(1, 2);
    const auto zeros = [](const at::Tensor& like, const at::Tensor& sum) {
      return at::zeros(like.sizes(), sum.options());
    };
    const Inputs all = {zeros(in.q, sums.q_BHtK), zeros(in.k, sums.k_BGsK),
                        zeros(in.v, sums.v_BGsV)};
    for (const Packed& each : packed()) {
      const Inputs of = backward(each.queries.of(of_out_NHK), each.of(in),
                                 {each.queries.of(out_NHK), each.queries.of(lse_HN, 1)},
                                 each.sizes(), each.reach, look_.scale);
      each.queries.add(all.q, of.q);
      each.keys.add(all.k, of.k);
      each.keys.add(all.v, of.v);
    }
    const auto add = [&](const at::Tensor& sum_BHtX, const at::Tensor& rows_NHX) {
      sum_BHtX.add_(
          rows_NHX.unflatten(0, {batch_, -1}).narrow(-1, 0, sum_BHtX.size(3)).transpose(1, 2));
    };
    add(sums.q_BHtK, all.q);
    add(sums.k_BGsK, all.k);
    add(sums.v_BGsV, all.v);
  }

  // ---- both

  at::Tensor of_out(const AttendedGradient& gradient) const {
    return by_position(padded(gradient.of_out_BHtV.to(in_.q.scalar_type()), width_));
  }
  at::Tensor out(const AttendedGradient& gradient) const {
    AM_ASSERT(gradient.out_BtHV.defined(), "flash attention's backward reads its output");
    return dense_in_width(padded(gradient.out_BtHV.to(in_.q.scalar_type()), width_));
  }

  const Look& look_;
  Firsts firsts_;
  int64_t batch_, queries_, keys_, width_, values_;
  Inputs in_;
};

}  // namespace

bool flash_takes(const Heads& heads, const Look& look) {
  return fused::narrow_on_gpu(heads.q_BHtK) && !look.softcap &&
         model::flash_takes_widths(heads.q_BHtK.size(3), heads.v_BGsV.size(3)) &&
         (!look.document_BT.defined() || look.document_starts != nullptr);
}

void flash_attend(const Heads& heads, const Look& look, const Firsts& firsts,
                  const Attended& attended) {
  Flash(heads, look, firsts).attend(attended);
}

void flash_attend_backward(const Heads& heads, const Look& look, const Firsts& firsts,
                           const AttendedGradient& gradient, const HeadGradients& sums) {
  Flash(heads, look, firsts).attend_backward(gradient, sums);
}

}  // namespace am::nn
