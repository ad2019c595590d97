#include "am/parallel/cp/context_parallel.h"

#include <ATen/ATen.h>

#include <memory>
#include <optional>

#include "am/layout/context.h"
#include "am/parallel/cp/all_gather.h"
#include "am/parallel/cp/ring.h"
#include "am/parallel/cp/sequence_group.h"
#include "am/parallel/cp/ulysses.h"

namespace am::parallel::cp {

namespace {

using Method = at::Tensor (*)(const nn::Qkv& heads, const nn::AttentionParams& params,
                              const std::optional<at::Tensor>& sinks_H, const SequenceGroup& ranks);

Method method_of(const config::Plan& plan) {
  if (plan.context.method == "ulysses") return &ulysses_attention;
  return plan.context.method == "all_gather" ? &all_gather_attention : &ring_attention;
}

// Returns a function that sums its argument over all ranks that share a sequence: over tp by
// `inner`, unless `inner` is empty, and then over the cp group `group`.
nn::SumOverRanks also_over(const nn::SumOverRanks& inner, const runtime::Group& group) {
  return [inner, cp = &group](const at::Tensor& numbers) {
    if (inner) inner(numbers);
    cp->all_reduce(numbers);
  };
}

}  // namespace

void apply_context_parallel(nn::Decoder& decoder, const config::Plan& plan,
                            const layout::Layout& layout, const runtime::DeviceMesh& mesh) {
  const runtime::Group& group = mesh.group("cp");
  if (group.size() == 1) return;
  const mesh::SequenceOrder order = layout::sequence_order(plan);
  const runtime::Group& tp = mesh.group("tp");
  nn::SequencePart part = {.ranks = group.size(), .index = group.index(), .order = order};
  if (layout.tp_plan.sequence_parallel) part.pieces = tp.size();
  if (!layout.tp_plan.rules.empty()) {
    part.dealt_pieces = tp.size();
    part.dealt_piece = tp.index();
  }
  decoder.set_sequence_part(part);
  const auto ranks = std::make_shared<const SequenceGroup>(SequenceGroup{&group, order});
  const auto core = std::make_shared<const nn::AttentionCore>(
      [ranks, method = method_of(plan)](const nn::Qkv& heads, const nn::AttentionParams& params,
                                        const std::optional<at::Tensor>& sinks_H) {
        return method(heads, params, sinks_H, *ranks);
      });
  for (nn::DecoderLayer& layer : decoder.layers()) {
    layer.self_attn.core = core;
    if (!layer.experts) continue;
    layer.experts->sum_of_sequences = also_over(layer.experts->sum_of_sequences, group);
  }
}

at::Tensor whole_sequences(const at::Tensor& x_BtX, const nn::SequencePart& part,
                           const runtime::Group& group) {
  const at::Tensor own = x_BtX.detach();
  if (group.size() == 1) return own;
  std::vector<int64_t> sizes = own.unsqueeze(1).sizes().vec();
  sizes.insert(sizes.begin(), group.size());
  const at::Tensor all = at::empty(sizes, own.options());
  group.all_gather(all, own.contiguous());
  const SequenceGroup ranks = {&group, part.order};
  return in_order(all, ranks.cut(own.size(1))).squeeze(1);
}

}  // namespace am::parallel::cp
