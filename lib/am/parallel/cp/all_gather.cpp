#include "am/parallel/cp/all_gather.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/attention/attention.h"
#include "am/nn/attention/flash.h"
#include "am/nn/autocast.h"
#include "am/nn/fused/tensors.h"
#include "am/parallel/cp/saved_attention.h"

namespace am::parallel::cp {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Keys and values of all positions, in the order of the sequence.
struct Gathered {
  at::Tensor k_BGTK, v_BGTV;
};

Gathered gather(const KeysAndValues& form, const at::Tensor& k_BGtK, const at::Tensor& v_BGtV,
                const SequenceGroup& ranks) {
  const at::Tensor own = form.packed(k_BGtK, v_BGtV);
  const at::Tensor all = at::empty({ranks.size(), own.numel()}, own.options());
  ranks.group->all_gather(all, own);
  const mesh::SequenceCut cut = ranks.cut(k_BGtK.size(kPositionDim));
  return {in_order(form.keys(all), cut), in_order(form.values(all), cut)};
}

// Calls visit(row, run) for each run of consecutive positions in this rank's part of the sequence,
// which has `local` positions. `run`: the positions in the sequence; `row`: index of the run's
// first position within the part.
template <typename Visit>
void for_own_runs(const SequenceGroup& ranks, int64_t local, const Visit& visit) {
  int64_t row = 0;
  for (const mesh::Extent& run : ranks.cut(local).parts(ranks.index())) {
    visit(row, run);
    row += run.size;
  }
}

struct AllGather : torch::autograd::Function<AllGather> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_BHtK,
                            const at::Tensor& k_BGtK, const at::Tensor& v_BGtV,
                            const std::optional<at::Tensor>& sinks_H,
                            const nn::AttentionParams& params, const SequenceGroup* ranks) {
    const nn::AutocastScope plain({q_BHtK.device().type(), std::nullopt});
    const int64_t batch = q_BHtK.size(0), heads = q_BHtK.size(1), local = q_BHtK.size(2);
    const auto wide = q_BHtK.options().dtype(nn::fused::wide_dtype(q_BHtK.scalar_type()));
    const at::Tensor out_BtHV = at::empty({batch, local, heads, v_BGtV.size(3)}, q_BHtK.options());
    const at::Tensor lse_BHt = at::empty({batch, heads, local}, wide);
    const Gathered all = gather(KeysAndValues({q_BHtK, k_BGtK, v_BGtV}), k_BGtK, v_BGtV, *ranks);
    for_own_runs(*ranks, local, [&](int64_t row, const mesh::Extent& run) {
      attend({q_BHtK.narrow(kPositionDim, row, run.size), all.k_BGTK, all.v_BGTV}, params,
             {.query = run.offset},
             {out_BtHV.narrow(1, row, run.size), lse_BHt.narrow(kPositionDim, row, run.size)},
             sinks_H);
    });
    SavedAttention{
        .q_BHtK = q_BHtK,
        .k_BGtK = k_BGtK,
        .v_BGtV = v_BGtV,
        .lse_BHt = lse_BHt,
        .sinks_H = sinks_H.value_or(at::Tensor()),
        .out_BtHV = nn::flash_takes({q_BHtK, k_BGtK, v_BGtV}, params) ? out_BtHV : at::Tensor(),
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
    const nn::AutocastScope plain({q_BHtK.device().type(), std::nullopt});
    const auto zeros = [&](const at::Tensor& like) {
      return at::zeros(like.sizes(), like.options().dtype(lse_BHt.scalar_type()));
    };
    const KeysAndValues form({q_BHtK, k_BGtK, v_BGtV});
    Gathered all = gather(form, k_BGtK, v_BGtV, ranks);
    nn::HeadGradients sums = {at::zeros_like(q_BHtK), zeros(all.k_BGTK), zeros(all.v_BGTV)};
    if (sinks_H.defined()) sums.sinks_H = zeros(sinks_H);
    const int64_t local = q_BHtK.size(kPositionDim);
    const auto out_of = [&](int64_t row, int64_t rows) {
      return saved.out_BtHV.defined() ? saved.out_BtHV.narrow(1, row, rows) : at::Tensor();
    };
    for_own_runs(ranks, local, [&](int64_t row, const mesh::Extent& run) {
      const auto rows = [&](const at::Tensor& x_BHtX) {
        return x_BHtX.narrow(kPositionDim, row, run.size);
      };
      attend_backward({rows(q_BHtK), all.k_BGTK, all.v_BGTV}, params, {.query = run.offset},
                      {rows(gradients[0]), rows(lse_BHt), {}, out_of(row, run.size)},
                      {rows(sums.q_BHtK), sums.k_BGsK, sums.v_BGsV, sums.sinks_H}, sinks_H);
    });
    all = {};
    const at::Tensor own = form.zeros(lse_BHt.scalar_type());
    const at::Tensor parts = at::empty({ranks.size(), form.numel()}, own.options());
    const mesh::SequenceCut cut = ranks.cut(local);
    put_by_rank(sums.k_BGsK, cut, form.keys(parts));
    put_by_rank(sums.v_BGsV, cut, form.values(parts));
    ranks.group->reduce_scatter(own, parts);
    if (sinks_H.defined()) sums.sinks_H = sums.sinks_H.to(sinks_H.scalar_type());
    return {sums.q_BHtK,
            form.keys(own).to(k_BGtK.scalar_type()),
            form.values(own).to(v_BGtV.scalar_type()),
            sums.sinks_H,
            at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor all_gather_attention(const nn::Qkv& heads, const nn::AttentionParams& params,
                                const std::optional<at::Tensor>& sinks_H,
                                const SequenceGroup& ranks) {
  const nn::Qkv in = nn::narrowed(heads);
  return AllGather::apply(in.q_BHtK, in.k_BGsK, in.v_BGsV, sinks_H, params, &ranks);
}

}  // namespace am::parallel::cp
