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
#include "am/nn/attention/flash_kernels.h"
#include "am/nn/fused/device.h"

namespace am::nn {
namespace {

using flash::backward;
using flash::forward;
using flash::Inputs;
using flash::Outputs;
using flash::Reach;
using flash::Sizes;

constexpr double kUnseen = -std::numeric_limits<double>::infinity();

// Arguments of one call of the kernels: ranges of positions in the sequence, and the window. Every
// query of a span sees at least one key of the span.
struct Span {
  mesh::Extent queries, keys;
  Reach reach;
};

// Note [Spans]: the queries are divided into up to three spans.
// - First span: queries at positions of the local keys need the causal mask and the window.
// - Middle span: queries that come after the last key and see all keys need no mask.
// - Last span: all later queries need the window, but no causal mask.
//
// The kernels measure windows from a diagonal that ends at the last query and the last key. In the
// last span, the last query is d positions after the last key, and the window passed to the kernels
// is shorter by d. The kernels also clamp windows to the number of keys, which would be wrong for
// more queries than keys. The last span never has more queries than keys, because the queries of
// the middle span are separate.
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

// Selects runs of indices along a dim of a tensor: by a view if the runs are adjacent, otherwise by
// an index tensor.
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

  // Whether the selected indices are 0 to count - 1, in order.
  bool are_all(int64_t count) const { return !index_.defined() && first_ == 0 && count_ == count; }

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

// Lengths of concatenated sequences: their cumulative sums, which begin with 0 and are int32 as the
// kernels require, and the largest length.
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

// ---- shapes and layouts that the kernels require

at::Tensor padded(const at::Tensor& x, int64_t width) {
  const int64_t missing = width - x.size(-1);
  return missing == 0 ? x : at::constant_pad_nd(x, {0, missing});
}

at::Tensor dense_in_width(const at::Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

// Returns x_BHtX as [B, t, H, X], with the X elements of each head contiguous in memory.
at::Tensor by_position(const at::Tensor& x_BHtX) { return dense_in_width(x_BHtX.transpose(1, 2)); }

class Flash {
 public:
  Flash(const Qkv& heads, const AttentionParams& params, const Firsts& firsts)
      : params_(params),
        firsts_(firsts),
        batch_(heads.q_BHtK.size(0)),
        queries_(heads.q_BHtK.size(2)),
        keys_(heads.k_BGsK.size(2)),
        width_(heads.q_BHtK.size(3)),
        values_(heads.v_BGsV.size(3)),
        in_{by_position(heads.q_BHtK), by_position(heads.k_BGsK),
            by_position(padded(heads.v_BGsV, width_))} {}

  void attend(const Attended& attended) const {
    if (folds()) return attend_folded(attended);
    if (params_.document_BT.defined()) return attend_to_documents(attended);
    const std::vector<Span> spans = whole_spans();
    int64_t seeing = 0;
    for (const Span& span : spans) seeing += span.queries.size;
    if (seeing < queries_) {
      attended.out_BtHV.zero_();
      attended.lse_BHt.fill_(kUnseen);
    }
    for (const Span& span : spans) {
      const auto [out, lse] = forward(seen(span), sizes(span), span.reach, params_.scale);
      const auto [row, rows] = local(span.queries, firsts_.query);
      attended.out_BtHV.narrow(1, row, rows).copy_(out.narrow(-1, 0, values_));
      attended.lse_BHt.narrow(2, row, rows).copy_(lse);
    }
  }

  void attend_backward(const AttendedGradient& gradient, const HeadGradients& sums) const {
    if (folds()) return folded_backward(gradient, sums);
    if (params_.document_BT.defined()) return documents_backward(gradient, sums);
    const at::Tensor of_out_BtHK = of_out(gradient), out_BtHK = out(gradient);
    for (const Span& span : whole_spans()) {
      const auto [row, rows] = local(span.queries, firsts_.query);
      const auto [key, keys] = local(span.keys, firsts_.key);
      const Inputs of =
          backward(of_out_BtHK.narrow(1, row, rows), seen(span),
                   {out_BtHK.narrow(1, row, rows), gradient.lse_BHt.narrow(2, row, rows)},
                   sizes(span), span.reach, params_.scale);
      sums.q_BHtK.narrow(2, row, rows).add_(of.q.transpose(1, 2));
      sums.k_BGsK.narrow(2, key, keys).add_(of.k.transpose(1, 2));
      sums.v_BGsV.narrow(2, key, keys).add_(of.v.narrow(-1, 0, values_).transpose(1, 2));
    }
  }

 private:
  // ---- without documents

  std::vector<Span> whole_spans() const {
    return spans_of({firsts_.query, queries_}, {firsts_.key, keys_}, params_.window);
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

  // ---- with a window that divides the length
  //
  // Note [Folded windows]: cuDNN's kernels, the fastest on Hopper, do not support windows. The
  // sequence is cut into runs of the window's length. Query i of a run sees two ranges of keys:
  // - Keys 0 to i of its own run. Their scores form a causal square.
  // - Keys i + 1 to window - 1 of the run before. With queries and keys in reverse order, their
  //   scores also form a causal square, of window - 1 positions: the last query of a run sees no
  //   key of the run before, and no query sees the first key of the run before.
  // One call computes the first squares of all runs, and another call the second squares. The two
  // results are merged by their log-sum-exps.

  bool folds() const {
    constexpr int64_t kShortest = 1024;  // shorter runs do not fill cuDNN's blocks
    return params_.window >= kShortest && !params_.document_BT.defined() && queries_ == keys_ &&
           firsts_.query == firsts_.key && keys_ % params_.window == 0 && keys_ > params_.window &&
           flash::cudnn_takes(in_, square(queries_), kCausal);
  }

  static constexpr Reach kCausal = {-1, 0};
  static Sizes square(int64_t length) { return {.longest_q = length, .longest_k = length}; }

  // in_runs() cuts [B, T, H, X] into n runs: [B, n, window, H, X]. later() selects the queries that
  // see keys of the run before their own run, and earlier() selects these keys.
  at::Tensor in_runs(const at::Tensor& x_BTHX) const {
    return x_BTHX.unflatten(1, {-1, params_.window});
  }
  at::Tensor later(const at::Tensor& x_BTHX) const {
    const at::Tensor runs = in_runs(x_BTHX);
    return runs.narrow(1, 1, runs.size(1) - 1).narrow(2, 0, params_.window - 1);
  }
  at::Tensor earlier(const at::Tensor& x_BTHX) const {
    const at::Tensor runs = in_runs(x_BTHX);
    return runs.narrow(1, 0, runs.size(1) - 1).narrow(2, 1, params_.window - 1);
  }
  // Returns the log-sum-exps of the queries that later() selects: [B, n - 1, H, window - 1].
  at::Tensor later_lse(const at::Tensor& lse_BHT) const {
    const at::Tensor runs = lse_BHT.unflatten(2, {-1, params_.window}).transpose(1, 2);
    return runs.narrow(1, 1, runs.size(1) - 1).narrow(3, 0, params_.window - 1);
  }
  // as_batch() makes each run a sequence of a batch; reversed() also reverses the run's positions.
  static at::Tensor as_batch(const at::Tensor& runs) { return runs.flatten(0, 1); }
  static at::Tensor reversed(const at::Tensor& runs) { return as_batch(runs).flip(1); }

  Inputs own_runs() const {
    return {as_batch(in_runs(in_.q)), as_batch(in_runs(in_.k)), as_batch(in_runs(in_.v))};
  }
  Inputs runs_before() const {
    return {reversed(later(in_.q)), reversed(earlier(in_.k)), reversed(earlier(in_.v))};
  }

  void attend_folded(const Attended& attended) const {
    const Outputs own = forward(own_runs(), square(params_.window), kCausal, params_.scale);
    attended.out_BtHV.copy_(
        own.out.unflatten(0, {batch_, -1}).flatten(1, 2).narrow(-1, 0, values_));
    attended.lse_BHt.copy_(own.lse.unflatten(0, {batch_, -1}).transpose(1, 2).flatten(2, 3));
    const Outputs before =
        forward(runs_before(), square(params_.window - 1), kCausal, params_.scale);
    const at::Tensor out = later(attended.out_BtHV), lse = later_lse(attended.lse_BHt);
    const at::Tensor other = before.lse.flip(2).unflatten(0, {batch_, -1});
    const at::Tensor both = at::logaddexp(lse, other);
    const auto factor = [&](const at::Tensor& from) {
      return (from - both).exp_().transpose(2, 3).unsqueeze(-1);
    };
    const at::Tensor others = before.out.flip(1).unflatten(0, {batch_, -1}).narrow(-1, 0, values_);
    out.copy_(out * factor(lse) + others * factor(other));
    lse.copy_(both);
  }

  void folded_backward(const AttendedGradient& gradient, const HeadGradients& sums) const {
    const at::Tensor of_out_BTHK = of_out(gradient), out_BTHK = out(gradient);
    const at::Tensor lse_runs = gradient.lse_BHt.unflatten(2, {-1, params_.window}).transpose(1, 2);
    const Inputs own = backward(as_batch(in_runs(of_out_BTHK)), own_runs(),
                                {as_batch(in_runs(out_BTHK)), as_batch(lse_runs)},
                                square(params_.window), kCausal, params_.scale);
    const auto whole = [&](const at::Tensor& runs) {
      return runs.unflatten(0, {batch_, -1}).flatten(1, 2).transpose(1, 2);
    };
    sums.q_BHtK.add_(whole(own.q));
    sums.k_BGsK.add_(whole(own.k));
    sums.v_BGsV.add_(whole(own.v).narrow(-1, 0, values_));
    const Inputs before =
        backward(reversed(later(of_out_BTHK)), runs_before(),
                 {reversed(later(out_BTHK)), as_batch(later_lse(gradient.lse_BHt)).flip(2)},
                 square(params_.window - 1), kCausal, params_.scale);
    const auto unfolded = [&](const at::Tensor& runs) {
      return runs.flip(1).unflatten(0, {batch_, -1});
    };
    later(sums.q_BHtK.transpose(1, 2)).add_(unfolded(before.q));
    earlier(sums.k_BGsK.transpose(1, 2)).add_(unfolded(before.k));
    earlier(sums.v_BGsV.transpose(1, 2)).add_(unfolded(before.v).narrow(-1, 0, values_));
  }

  // ---- with documents: the rows of all sequences, concatenated (N rows)

  // Arguments of one call of the kernels, for parts of several documents.
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

  // Returns the arguments of one call for each distinct Reach among the documents' spans.
  std::vector<Packed> packed() const {
    struct Runs {
      std::vector<mesh::Extent> queries, keys;
    };
    std::map<Reach, Runs> by_reach;
    const std::vector<int64_t>& starts = *params_.document_starts;
    const int64_t length = params_.document_BT.size(1);
    for (size_t i = 0; i < starts.size(); ++i) {
      const int64_t sequence = starts[i] / length, end_of_all = (sequence + 1) * length;
      const int64_t end = i + 1 < starts.size() ? std::min(starts[i + 1], end_of_all) : end_of_all;
      const int64_t first = starts[i] - sequence * length, last = end - sequence * length;
      const auto part = [&](int64_t from, int64_t count) -> mesh::Extent {
        const int64_t begin = std::max(first, from);
        return {begin, std::max<int64_t>(0, std::min(last, from + count) - begin)};
      };
      for (const Span& span :
           spans_of(part(firsts_.query, queries_), part(firsts_.key, keys_), params_.window)) {
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
    const std::vector<Packed> parts = packed();
    at::Tensor out_NHK, lse_HN;
    if (parts.size() == 1 && parts[0].queries.are_all(in.q.size(0))) {
      const Packed& all = parts[0];
      const Outputs made = forward(all.of(in), all.sizes(), all.reach, params_.scale);
      out_NHK = made.out;
      lse_HN = made.lse;
    } else {
      out_NHK = at::zeros_like(in.q);
      lse_HN = at::full({in.q.size(1), in.q.size(0)}, kUnseen, attended.lse_BHt.options());
      for (const Packed& each : parts) {
        const Outputs made = forward(each.of(in), each.sizes(), each.reach, params_.scale);
        each.queries.put(out_NHK, made.out);
        each.queries.put(lse_HN, made.lse, 1);
      }
    }
    attended.out_BtHV.copy_(out_NHK.unflatten(0, {batch_, queries_}).narrow(-1, 0, values_));
    attended.lse_BHt.copy_(lse_HN.unflatten(1, {batch_, queries_}).transpose(0, 1));
  }

  void documents_backward(const AttendedGradient& gradient, const HeadGradients& sums) const {
    const Inputs in = inputs_in_rows();
    const at::Tensor of_out_NHK = in_rows(of_out(gradient)), out_NHK = in_rows(out(gradient));
    const at::Tensor lse_HN = gradient.lse_BHt.transpose(0, 1).flatten(1, 2);
    const auto gradients = [&](const Packed& part) {
      return backward(part.queries.of(of_out_NHK), part.of(in),
                      {part.queries.of(out_NHK), part.queries.of(lse_HN, 1)}, part.sizes(),
                      part.reach, params_.scale);
    };
    const std::vector<Packed> parts = packed();
    Inputs all;
    if (parts.size() == 1 && parts[0].queries.are_all(in.q.size(0)) &&
        parts[0].keys.are_all(in.k.size(0))) {
      all = gradients(parts[0]);
    } else {
      const auto zeros = [](const at::Tensor& like, const at::Tensor& sum) {
        return at::zeros(like.sizes(), sum.options());
      };
      all = {zeros(in.q, sums.q_BHtK), zeros(in.k, sums.k_BGsK), zeros(in.v, sums.v_BGsV)};
      for (const Packed& each : parts) {
        const Inputs of = gradients(each);
        each.queries.add(all.q, of.q);
        each.keys.add(all.k, of.k);
        each.keys.add(all.v, of.v);
      }
    }
    const auto add = [&](const at::Tensor& sum_BHtX, const at::Tensor& rows_NHX) {
      sum_BHtX.add_(
          rows_NHX.unflatten(0, {batch_, -1}).narrow(-1, 0, sum_BHtX.size(3)).transpose(1, 2));
    };
    add(sums.q_BHtK, all.q);
    add(sums.k_BGsK, all.k);
    add(sums.v_BGsV, all.v);
  }

  // ---- with or without documents

  at::Tensor of_out(const AttendedGradient& gradient) const {
    return by_position(padded(gradient.of_out_BHtV.to(in_.q.scalar_type()), width_));
  }
  at::Tensor out(const AttendedGradient& gradient) const {
    AM_ASSERT(gradient.out_BtHV.defined(), "flash attention's backward reads its output");
    return dense_in_width(padded(gradient.out_BtHV.to(in_.q.scalar_type()), width_));
  }

  const AttentionParams& params_;
  Firsts firsts_;
  int64_t batch_, queries_, keys_, width_, values_;
  Inputs in_;
};

}  // namespace

bool flash_takes(const Qkv& heads, const AttentionParams& params) {
  return fused::narrow_on_gpu(heads.q_BHtK) && !params.softcap && params.slopes.empty() &&
         model::flash_takes_widths(heads.q_BHtK.size(3), heads.v_BGsV.size(3)) &&
         (!params.document_BT.defined() || params.document_starts != nullptr);
}

void flash_attend(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                  const Attended& attended) {
  Flash(heads, params, firsts).attend(attended);
}

void flash_attend_backward(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                           const AttendedGradient& gradient, const HeadGradients& sums) {
  Flash(heads, params, firsts).attend_backward(gradient, sums);
}

}  // namespace am::nn
