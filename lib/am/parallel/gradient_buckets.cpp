#include "am/parallel/gradient_buckets.h"

#include <utility>

#include "am/base/text.h"

namespace am::parallel {

GradientBuckets::GradientBuckets(const nn::Decoder& decoder, const planner::Layout& layout,
                                 const runtime::DeviceMesh& mesh, DataParallelOptions given)
    : DataParallel(mesh, std::move(given)) {
  const ReductionGroups reduction = reduction_groups(layout, mesh);
  for (const auto& bucket : options().buckets) {
    ParamGroup& added = add_group(decoder, layout, cat("bucket ", groups().size()), bucket, mesh,
                                  reduction, group_options());
    if (!options().overlap_reduction) continue;
    added.gradients().on_complete([this, &added] {
      if (requires_gradient_sync()) reduce(added);
    });
  }
}

void GradientBuckets::before_unit(size_t /*use*/, std::span<at::Tensor> inputs) {
  for (auto& group : groups()) group->unshard();
  cast_inputs(inputs);
}

void GradientBuckets::finish(ParamGroup& group) {
  if (group.gradients().any_new()) reduce(group);
}

}  // namespace am::parallel
