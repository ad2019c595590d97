#include "am/nn/attention/block_kernel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "am/base/fault.h"
#include "am/nn/attention/flash.h"
#include "am/nn/fused/device.h"
#include "am/nn/fused/tensors.h"

namespace am::nn {
namespace {

constexpr int64_t kRowsOfABlock = 128;
constexpr double kHidden = -std::numeric_limits<double>::infinity();
// Replaces a maximum or log-sum-exp of -inf before a subtraction, because -inf - -inf is NaN.
constexpr double kLowest = std::numeric_limits<float>::lowest();

// The local queries [row, row + rows), and the range of local keys [first, first + keys) that these
// queries may see. `keys` is 0 if the queries see no key.
struct Block {
  int64_t row, rows;
  int64_t first, keys;
};

// Returns x_BHtK as [B * G, H / G * t, K] in `dtype`, where G is `key_heads`: concatenates the
// queries of all heads that read one key head.
at::Tensor grouped(const at::Tensor& x_BHtK, int64_t key_heads, at::ScalarType dtype) {
  const int64_t batch = x_BHtK.size(0), width = x_BHtK.size(3);
  return x_BHtK.to(dtype).reshape({batch * key_heads, -1, width});
}

// Inverse of grouped() for a block: returns x [B * G, H / G * rows, V] as [B, H, rows, V].
at::Tensor ungrouped(const at::Tensor& x, int64_t batch, int64_t rows) {
  return x.view({batch, -1, rows, x.size(2)});
}

class Scores {
 public:
  Scores(const Qkv& heads, const AttentionParams& params, const Firsts& firsts)
      : heads_(heads),
        params_(params),
        firsts_(firsts),
        dtype_(fused::wide_dtype(heads.q_BHtK.scalar_type())) {}

  at::ScalarType dtype() const { return dtype_; }
  int64_t batch() const { return heads_.q_BHtK.size(0); }
  int64_t groups() const { return heads_.k_BGsK.size(1); }
  // Returns the slice of x_BHtX for the block's queries, in the shape that grouped() returns.
  at::Tensor rows_of(const at::Tensor& x_BHtX, const Block& block) const {
    return grouped(x_BHtX.narrow(2, block.row, block.rows), groups(), dtype_);
  }
  at::Tensor queries(const Block& block) const { return rows_of(heads_.q_BHtK, block); }
  at::Tensor keys(const Block& block) const { return seen(heads_.k_BGsK, block); }
  at::Tensor values(const Block& block) const { return seen(heads_.v_BGsV, block); }

  // Returns the sink score of each query's head: [B * G, H / G * rows, 1].
  at::Tensor sinks(const at::Tensor& sinks_H, const Block& block) const {
    const at::Tensor sinks_BHt1 =
        sinks_H.view({1, -1, 1, 1}).expand({batch(), heads_.q_BHtK.size(1), block.rows, 1});
    return grouped(sinks_BHt1, groups(), dtype_);
  }

  template <typename Visit>
  void for_blocks(const Visit& visit) const {
    const int64_t length = heads_.q_BHtK.size(2), keys = heads_.k_BGsK.size(2);
    for (int64_t row = 0; row < length; row += kRowsOfABlock) {
      const int64_t rows = std::min(kRowsOfABlock, length - row);
      // Position of the block's first query, counted from the first key.
      const int64_t ahead = firsts_.query - firsts_.key + row;
      const int64_t first =
          params_.window > 0 ? std::max<int64_t>(0, ahead - params_.window + 1) : int64_t{0};
      const int64_t end = std::min(keys, ahead + rows);
      visit(Block{row, rows, first, std::max<int64_t>(0, end - first)});
    }
  }

  struct Made {
    at::Tensor scores;   // [B * G, H / G * rows, keys]; -inf where a query does not see a key
    at::Tensor tangent;  // tanh(score / c) under a soft-cap, otherwise undefined
  };
  Made make(const Block& block, const at::Tensor& queries, const at::Tensor& keys) const {
    Made made;
    made.scores = at::bmm(queries, keys.transpose(1, 2)).mul_(params_.scale);
    if (params_.softcap) {
      made.tangent = made.scores.div_(*params_.softcap).tanh_();
      made.scores = made.tangent * *params_.softcap;
    }
    if (!params_.slopes.empty()) {
      made.scores.view({batch(), groups(), -1, block.rows, block.keys}).add_(biases(block));
    }
    if (!all_seen(block)) {
      made.scores.view({batch(), groups(), -1, block.rows, block.keys})
          .masked_fill_(hidden(block), kHidden);
    }
    return made;
  }

 private:
  // Returns the keys or values that the block may see, in the shape that grouped() returns.
  at::Tensor seen(const at::Tensor& x_BGsX, const Block& block) const {
    return grouped(x_BGsX.narrow(2, block.first, block.keys), groups(), dtype_);
  }
  // Returns ALiBi's biases of the block: [G, H / G, rows, keys].
  at::Tensor biases(const Block& block) const {
    const auto like = heads_.q_BHtK.options().dtype(dtype_);
    const auto positions = [&](int64_t first, int64_t count) {
      return at::arange(first, first + count, like);
    };
    const at::Tensor ahead = positions(first_key(block), block.keys).unsqueeze(0) -
                             positions(first_query(block), block.rows).unsqueeze(1);
    const at::Tensor slopes_H = fused::uploaded(at::tensor(params_.slopes, dtype_), like.device());
    return slopes_H.view({groups(), -1, 1, 1}) * ahead;
  }
  int64_t first_query(const Block& block) const { return firsts_.query + block.row; }
  int64_t first_key(const Block& block) const { return firsts_.key + block.first; }

  bool all_seen(const Block& block) const {
    const int64_t last_key = first_key(block) + block.keys - 1;
    const int64_t furthest = first_query(block) + block.rows - 1 - first_key(block);
    return !params_.document_BT.defined() && last_key <= first_query(block) &&
           (params_.window == 0 || furthest < params_.window);
  }

  // Returns a mask [rows, keys] or [B, 1, 1, rows, keys], true where a query does not see a key.
  at::Tensor hidden(const Block& block) const {
    const auto integers = at::TensorOptions(at::kLong).device(heads_.q_BHtK.device());
    const auto positions = [&](int64_t first, int64_t count) {
      return at::arange(first, first + count, integers);
    };
    const at::Tensor query = positions(first_query(block), block.rows).unsqueeze(1);
    const at::Tensor key = positions(first_key(block), block.keys).unsqueeze(0);
    at::Tensor hidden = key.gt(query);
    if (params_.window > 0) {
      const bool local = fault::is_planted(fault::Fault::kWindowLocal);
      const int64_t apart = local ? firsts_.query - firsts_.key : 0;
      hidden = hidden.bitwise_or(key.le(query - apart - params_.window));
    }
    if (!params_.document_BT.defined()) return hidden;
    const auto documents = [&](int64_t first, int64_t count) {
      return params_.document_BT.narrow(1, first, count);
    };
    const at::Tensor own = documents(first_query(block), block.rows).unsqueeze(2);
    const at::Tensor other = documents(first_key(block), block.keys).unsqueeze(1);
    return hidden.bitwise_or(own.ne(other)).unsqueeze(1).unsqueeze(1);
  }

  const Qkv& heads_;
  const AttentionParams& params_;
  Firsts firsts_;
  at::ScalarType dtype_;
};

}  // namespace

void attend(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
            const Attended& attended, const std::optional<at::Tensor>& sinks_H) {
  if (flash_takes(heads, params)) {
    flash_attend(heads, params, firsts, attended);
    if (sinks_H) join_sinks(attended, *sinks_H);
    return;
  }
  const Scores scores(heads, params, firsts);
  scores.for_blocks([&](const Block& block) {
    const at::Tensor out_BtHV = attended.out_BtHV.narrow(1, block.row, block.rows);
    const at::Tensor lse_BHt = attended.lse_BHt.narrow(2, block.row, block.rows);
    if (block.keys == 0) {
      out_BtHV.zero_();
      lse_BHt.fill_(kHidden);
      return;
    }
    at::Tensor p = scores.make(block, scores.queries(block), scores.keys(block)).scores;
    at::Tensor most = p.amax(-1, /*keepdim=*/true).clamp_min_(kLowest);
    at::Tensor sink;
    if (sinks_H) {
      sink = scores.sinks(*sinks_H, block);
      most = at::maximum(most, sink);
    }
    p.sub_(most).exp_();
    at::Tensor sum = p.sum(-1, /*keepdim=*/true);
    if (sinks_H) sum += (sink - most).exp_();
    // The largest score contributes 1, so the sum is below 1 only for a query that sees no key.
    const at::Tensor out = at::bmm(p, scores.values(block)).div_(sum.clamp_min(1.0));
    out_BtHV.copy_(ungrouped(out, scores.batch(), block.rows).transpose(1, 2));
    lse_BHt.copy_(ungrouped(most + sum.log(), scores.batch(), block.rows).squeeze(-1));
  });
}

void attend_backward(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                     const AttendedGradient& gradient, const HeadGradients& sums,
                     const std::optional<at::Tensor>& sinks_H) {
  if (flash_takes(heads, params)) {
    flash_attend_backward(heads, params, firsts, gradient, sums);
    if (!sums.sinks_H.defined()) return;
    const at::ScalarType wide = gradient.lse_BHt.scalar_type();
    const at::Tensor along_BHt =
        (gradient.of_out_BHtV.to(wide) * gradient.out_BtHV.transpose(1, 2).to(wide)).sum(-1);
    sums.sinks_H.add_(gradient_of_sinks(*sinks_H, gradient.lse_BHt, along_BHt));
    return;
  }
  const Scores scores(heads, params, firsts);
  const int64_t batch = scores.batch(), groups = scores.groups();
  scores.for_blocks([&](const Block& block) {
    if (block.keys == 0) return;
    const at::Tensor q = scores.queries(block), k = scores.keys(block);
    const auto add = [&](const at::Tensor& sum_BGsX, const at::Tensor& part) {
      sum_BGsX.narrow(2, block.first, block.keys)
          .add_(part.view({batch, groups, block.keys, part.size(2)}));
    };
    const at::Tensor of_out = scores.rows_of(gradient.of_out_BHtV, block);
    const Scores::Made made = scores.make(block, q, k);
    const at::Tensor lse = scores.rows_of(gradient.lse_BHt.unsqueeze(-1), block);
    const at::Tensor p = made.scores.sub_(lse.clamp_min(kLowest)).exp_();
    add(sums.v_BGsV, at::bmm(p.transpose(1, 2), of_out));
    at::Tensor of_scores = at::bmm(of_out, scores.values(block).transpose(1, 2));
    // For each query, the dot product of the output and the output's gradient, which softmax's
    // backward subtracts.
    const at::Tensor along = gradient.along_BHt.defined()
                                 ? scores.rows_of(gradient.along_BHt.unsqueeze(-1), block)
                                 : (of_scores * p).sum(-1, /*keepdim=*/true);
    if (sums.sinks_H.defined()) {  // a sink is a key whose value vector is 0
      const at::Tensor of_sinks = (scores.sinks(*sinks_H, block) - lse).exp_().mul_(along);
      sums.sinks_H.sub_(ungrouped(of_sinks, batch, block.rows).sum({0, 2, 3}));
    }
    of_scores.sub_(along).mul_(p);
    if (params.softcap) of_scores.mul_(1 - made.tangent.square());
    of_scores.mul_(params.scale);
    sums.q_BHtK.narrow(2, block.row, block.rows)
        .add_(ungrouped(at::bmm(of_scores, k), batch, block.rows));
    add(sums.k_BGsK, at::bmm(of_scores.transpose(1, 2), q));
  });
}

at::Tensor exponential_factor(const at::Tensor& from_BHt, const at::Tensor& to_BHt) {
  return (from_BHt - to_BHt.clamp_min(kLowest)).exp_().transpose(1, 2).unsqueeze(-1);
}

void join_sinks(const Attended& attended, const at::Tensor& sinks_H) {
  const at::Tensor sinks_1H1 = sinks_H.to(attended.lse_BHt.scalar_type()).view({1, -1, 1});
  const at::Tensor joined = at::logaddexp(attended.lse_BHt, sinks_1H1);
  attended.out_BtHV.mul_(exponential_factor(attended.lse_BHt, joined));
  attended.lse_BHt.copy_(joined);
}

at::Tensor gradient_of_sinks(const at::Tensor& sinks_H, const at::Tensor& lse_BHt,
                             const at::Tensor& along_BHt) {
  const at::Tensor sinks_1H1 = sinks_H.to(lse_BHt.scalar_type()).view({1, -1, 1});
  return (sinks_1H1 - lse_BHt).exp_().mul_(along_BHt).sum(2).sum(0).neg_();
}

}  // namespace am::nn
