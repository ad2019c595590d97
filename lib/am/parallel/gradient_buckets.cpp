#include "am/parallel/gradient_buckets.h"

#include <utility>

#include "am/base/text.h"

namespace am::parallel {

GradientBuckets::GradientBuckets(const nn::Decoder& decoder, const layout::Layout& layout,
                                 const runtime::DeviceMesh& mesh, DataParallelOptions given)
    : DataParallel(decoder, layout, mesh, std::move(given)) {
  const Ranks ranks = ranks_of(layout, mesh);
  for (const auto& bucket : options().buckets) {
    const layout::Layout::ByRanks own = layout.by_ranks(bucket, mesh.rank());
    const bool of_experts = !own.experts.empty();
    if (own.dense.empty() && !of_experts) continue;  // all its parameters are other ranks' experts
    ParamGroup& added = add_group(decoder, layout, cat("bucket ", groups().size()),
                                  of_experts ? own.experts : own.dense, mesh,
                                  of_experts ? ranks.experts : ranks.dense, group_options());
    // An expert's gradient may be computed in parts (nn/experts/expert_feed_forward.h), so it is
    // reduced after backward.
    if (!options().overlap_reduction || of_experts) continue;
    added.gradients().on_complete([this, &added] {
      if (requires_gradient_sync()) reduce(added);
    });
  }
}

void GradientBuckets::before_unit(size_t use, std::span<at::Tensor> inputs) {
  enter(use);
  for (auto& group : groups()) group->unshard();
  cast_inputs(inputs);
}

void GradientBuckets::after_unit(size_t use, std::span<at::Tensor> outputs) {
  note_backward(use, outputs);
}

void GradientBuckets::finish(ParamGroup& group) {
  if (group.gradients().any_new()) reduce(group);
}

}  // namespace am::parallel
