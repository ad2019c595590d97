#include "am/parallel/cp/ring.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "am/base/fault.h"
#include "am/nn/attention/attention.h"
#include "am/nn/autocast.h"
#include "am/nn/fused/tensors.h"
#include "am/parallel/cp/saved_attention.h"

namespace am::parallel::cp {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// A run of consecutive query positions of this rank, and a run of consecutive key positions of the
// rank that owns the keys (the owner).
struct Pair {
  int64_t row, rows;    // index of the first query within this rank's part, and number of queries
  int64_t first, keys;  // index of the first key within the owner's part, and number of keys
  nn::Firsts firsts;
};

// One pass of the keys and values around the ring.
class Round {
 public:
  Round(const SequenceGroup& ranks, int64_t local, int64_t window)
      : ranks_(ranks),
        cut_(ranks.cut(local)),
        window_(window),
        steps_(mesh::ring_steps(cut_, window)) {}

  // Returns the number of ranks by which a buffer moves after a step: to the rank that needs the
  // buffer at the next step or, after the last step, back to its owner.
  int64_t shift(size_t step) const {
    return (step + 1 < steps_.size() ? steps_[step + 1] : ranks_.size()) - steps_[step];
  }
  bool is_last(size_t step) const { return step + 1 == steps_.size(); }

  // Calls visit(step, owner, packed) for each step. `own`: this rank's keys and values in one
  // buffer (KeysAndValues). `owner`: the index of a rank; `packed`: that rank's keys and values.
  // While visit() runs, receives the buffer of the next step.
  template <typename Visit>
  void run(const at::Tensor& own, const Visit& visit) const {
    at::Tensor here = own;
    for (size_t step = 0; step < steps_.size(); ++step) {
      at::Tensor next;
      runtime::Pending coming;
      if (!is_last(step)) {
        next = at::empty_like(own);
        coming = ranks_.group->rotate_async(next, here, shift(step));
      }
      visit(step, owner_at(steps_[step]), here);
      coming.wait();
      here = next;
    }
  }

  // Calls visit(pair) for each run of this rank's queries and each run of the owner's keys, if any
  // of these queries attends to any of these keys.
  template <typename Visit>
  void for_pairs(int64_t owner, const Visit& visit) const {
    int64_t row = 0;
    for (const mesh::Extent& queries : cut_.parts(ranks_.index())) {
      int64_t first = 0;
      for (const mesh::Extent& keys : cut_.parts(owner)) {
        if (mesh::sees(queries, keys, window_)) {
          visit(Pair{row, queries.size, first, keys.size, {queries.offset, keys.offset}});
        }
        first += keys.size;
      }
      row += queries.size;
    }
  }

 private:
  int64_t owner_at(int64_t hops) const {
    const bool other_way = fault::is_planted(fault::Fault::kCpRingOrder);
    return (ranks_.index() + (other_way ? hops : ranks_.size() - hops)) % ranks_.size();
  }

  const SequenceGroup& ranks_;
  mesh::SequenceCut cut_;
  int64_t window_;
  std::vector<int64_t> steps_;
};

at::Tensor rows_of(const at::Tensor& x_BHtX, const Pair& pair) {
  return x_BHtX.narrow(kPositionDim, pair.row, pair.rows);
}

nn::Qkv heads_of(const Pair& pair, const at::Tensor& q_BHtK, const KeysAndValues& form,
                 const at::Tensor& packed) {
  const auto seen = [&](const at::Tensor& x_BGsX) {
    return x_BGsX.narrow(kPositionDim, pair.first, pair.keys);
  };
  return {rows_of(q_BHtK, pair), seen(form.keys(packed)), seen(form.values(packed))};
}

struct Ring : torch::autograd::Function<Ring> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_BHtK,
                            const at::Tensor& k_BGtK, const at::Tensor& v_BGtV,
                            const std::optional<at::Tensor>& sinks_H,
                            const nn::AttentionParams& params, const SequenceGroup* ranks) {
    const nn::AutocastScope plain({q_BHtK.device().type(), std::nullopt});
    const int64_t batch = q_BHtK.size(0), heads = q_BHtK.size(1), local = q_BHtK.size(2);
    const auto wide = q_BHtK.options().dtype(nn::fused::wide_dtype(q_BHtK.scalar_type()));
    const auto nothing = [&](int64_t rows) -> nn::Attended {
      return {at::zeros({batch, rows, heads, v_BGtV.size(3)}, wide),
              at::full({batch, heads, rows}, kNothing, wide)};
    };
    const nn::Attended all = nothing(local);
    const KeysAndValues form({q_BHtK, k_BGtK, v_BGtV});
    const Round round(*ranks, local, params.window);
    round.run(
        form.packed(k_BGtK, v_BGtV), [&](size_t /*step*/, int64_t owner, const at::Tensor& packed) {
          round.for_pairs(owner, [&](const Pair& pair) {
            const nn::Attended one = nothing(pair.rows);
            attend(heads_of(pair, q_BHtK, form, packed), params, pair.firsts, one);
            if (sinks_H && fault::is_planted(fault::Fault::kCpSinks)) join_sinks(one, *sinks_H);
            merge({all.out_BtHV.narrow(1, pair.row, pair.rows), rows_of(all.lse_BHt, pair)}, one);
          });
        });
    if (sinks_H) join_sinks(all, *sinks_H);
    const at::Tensor out_BtHV = all.out_BtHV.to(q_BHtK.scalar_type());
    SavedAttention{.q_BHtK = q_BHtK,
                   .k_BGtK = k_BGtK,
                   .v_BGtV = v_BGtV,
                   .lse_BHt = all.lse_BHt,
                   .sinks_H = sinks_H.value_or(at::Tensor()),
                   .out_BtHV = out_BtHV,
                   .params = params,
                   .ranks = ranks}
        .save(*context);
    return out_BtHV.transpose(1, 2);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const SavedAttention saved = SavedAttention::of(*context);
    const at::Tensor &q_BHtK = saved.q_BHtK, &k_BGtK = saved.k_BGtK, &v_BGtV = saved.v_BGtV;
    const at::Tensor &lse_BHt = saved.lse_BHt, &sinks_H = saved.sinks_H;
    const nn::AttentionParams& params = saved.params;
    const SequenceGroup& ranks = *saved.ranks;
    const at::Tensor& of_out_BHtV = gradients[0];
    const nn::AutocastScope plain({q_BHtK.device().type(), std::nullopt});
    const at::ScalarType wide = lse_BHt.scalar_type();
    const at::Tensor along_BHt =
        (of_out_BHtV.to(wide) * saved.out_BtHV.transpose(1, 2).to(wide)).sum(-1);
    const at::Tensor of_q_BHtK = at::zeros(q_BHtK.sizes(), q_BHtK.options().dtype(wide));
    const KeysAndValues form({q_BHtK, k_BGtK, v_BGtV});
    const Round round(ranks, q_BHtK.size(2), params.window);
    // `sums`: gradients of the current owner's keys and values that the ranks before this rank have
    // computed; after the last step, all gradients of this rank's own keys and values. `sent`: the
    // buffer that is being sent.
    at::Tensor sums, sent;
    runtime::Pending coming;
    round.run(form.packed(k_BGtK, v_BGtV), [&](size_t step, int64_t owner,
                                               const at::Tensor& packed) {
      const at::Tensor mine = form.zeros(wide);
      round.for_pairs(owner, [&](const Pair& pair) {
        const nn::Qkv to = heads_of(pair, of_q_BHtK, form, mine);
        attend_backward(heads_of(pair, q_BHtK, form, packed), params, pair.firsts,
                        {rows_of(of_out_BHtV, pair), rows_of(lse_BHt, pair),
                         rows_of(along_BHt, pair), saved.out_BtHV.narrow(1, pair.row, pair.rows)},
                        {to.q_BHtK, to.k_BGsK, to.v_BGsV});
      });
      coming.wait();
      if (step > 0) mine.add_(sums);
      sent = mine;
      sums = at::empty_like(mine);
      if (round.is_last(step) && fault::is_planted(fault::Fault::kCpKeyHome)) {
        sums = mine;
        return;
      }
      coming = ranks.group->rotate_async(sums, sent, round.shift(step));
    });
    coming.wait();
    at::Tensor of_sinks_H;
    if (sinks_H.defined()) {
      of_sinks_H = nn::gradient_of_sinks(sinks_H, lse_BHt, along_BHt).to(sinks_H.scalar_type());
    }
    return {of_q_BHtK.to(q_BHtK.scalar_type()),
            form.keys(sums).to(k_BGtK.scalar_type()),
            form.values(sums).to(v_BGtV.scalar_type()),
            of_sinks_H,
            at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

void merge(const nn::Attended& sum, const nn::Attended& with) {
  if (fault::is_planted(fault::Fault::kCpLse)) {
    with.lse_BHt.masked_fill_(with.lse_BHt.eq(kNothing), 0.0);
  }
  const at::Tensor both_BHt = at::logaddexp(sum.lse_BHt, with.lse_BHt);
  sum.out_BtHV.mul_(nn::exponential_factor(sum.lse_BHt, both_BHt));
  sum.out_BtHV.add_(with.out_BtHV * nn::exponential_factor(with.lse_BHt, both_BHt));
  sum.lse_BHt.copy_(both_BHt);
}

at::Tensor ring_attention(const nn::Qkv& heads, const nn::AttentionParams& params,
                          const std::optional<at::Tensor>& sinks_H, const SequenceGroup& ranks) {
  const nn::Qkv in = nn::narrowed(heads);
  return Ring::apply(in.q_BHtK, in.k_BGsK, in.v_BGsV, sinks_H, params, &ranks);
}

}  // namespace am::parallel::cp
