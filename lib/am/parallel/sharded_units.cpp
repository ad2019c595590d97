#include "am/parallel/sharded_units.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "am/base/error.h"

namespace am::parallel {

ShardedUnits::ShardedUnits(nn::Decoder& decoder, const planner::Layout& layout,
                           const runtime::DeviceMesh& mesh, DataParallelOptions given)
    : DataParallel(mesh, std::move(given)),
      uses_(decoder.unit_uses()),
      reduce_at_end_(layout.units.size(), false),
      gathers_in_backward_(layout.units.size(), false) {
  AM_ASSERT(options().reshard_after_forward.size() == layout.units.size(), "an option per unit");
  ParamGroupOptions group = group_options();
  if (options().post_forward_size > 0 &&
      options().post_forward_size < mesh.group("dp_shard_cp").size()) {
    post_forward_group_ = mesh.split("dp_shard_cp", options().post_forward_size);
    group.post_forward_group = &*post_forward_group_;
  }
  const ReductionGroups groups = reduction_groups(layout, mesh);
  for (const auto& unit : layout.units) {
    group.pool = options().reuse_buffers && unit.layer >= 0 ? &pool_ : nullptr;
    add_group(decoder, layout, unit.name, layout.gathered(unit), mesh, groups, group);
  }
  add_ignored(decoder, layout, mesh, groups, group);
}

void ShardedUnits::add_ignored(const nn::Decoder& decoder, const planner::Layout& layout,
                               const runtime::DeviceMesh& mesh, ReductionGroups groups,
                               ParamGroupOptions group) {
  const std::vector<int> ignored = layout.ignored();
  if (ignored.empty()) return;
  group.pool = nullptr;
  group.post_forward_group = nullptr;
  alone_ = mesh.split("dp_cp", 1);
  groups.shard = &*alone_;
  groups.replicate = &mesh.group("dp_cp");
  ignored_ = &add_group(decoder, layout, "ignored", ignored, mesh, groups, group);
}

void ShardedUnits::before_unit(size_t use, std::span<at::Tensor> inputs) {
  if (ignored_ != nullptr) ignored_->unshard();
  group_of(use).unshard();
  prefetch(use, +1, options().prefetch.forward);
  cast_inputs(inputs);
  if (!at::GradMode::is_enabled()) return;
  const auto carries = [](const at::Tensor& input) { return input.requires_grad(); };
  const auto differentiable = std::count_if(inputs.begin(), inputs.end(), carries);
  if (differentiable == 0) {
    // Nothing will flow back through these inputs, so no hook can tell when the unit's backward is
    // over.
    reduce_at_end_[unit_of(use)] = true;
    return;
  }
  // A view's own gradient is complete when every use of it inside the unit has been through
  // backward; autograd runs the accumulation of leaves before any other ready node, so the
  // parameters' gradients are there too. The last of the inputs ends the unit.
  const auto missing = std::make_shared<int64_t>(differentiable);
  for (at::Tensor& input : inputs) {
    if (!carries(input)) continue;
    input = input.view_as(input);
    input.register_hook([this, use, missing](const at::Tensor&) {
      if (--*missing == 0) post_backward(use);
    });
  }
}

void ShardedUnits::after_unit(size_t use, std::span<at::Tensor> outputs) {
  for (const at::Tensor& output : outputs) {
    if (!at::GradMode::is_enabled() || !output.requires_grad()) continue;
    if (!uses_[use].backward_reads_parameters) continue;
    gathers_in_backward_[unit_of(use)] = true;
    output.register_hook([this, use](const at::Tensor&) { pre_backward(use); });
  }
  if (options().reshard_after_forward[unit_of(use)]) group_of(use).reshard_after_forward();
}

// Gathers the units of the next `depth` uses in the forward order's direction `step`.
void ShardedUnits::prefetch(size_t use, int step, int64_t depth) {
  auto place = static_cast<int64_t>(use);
  for (int64_t i = 0; i < depth; ++i) {
    place += step;
    if (place < 0 || place >= static_cast<int64_t>(uses_.size())) return;
    const auto next = static_cast<size_t>(place);
    if (step > 0 || gathers_in_backward_[unit_of(next)]) group_of(next).begin_unshard();
  }
}

void ShardedUnits::pre_backward(size_t use) {
  group_of(use).unshard();
  prefetch(use, -1, options().prefetch.backward);
}

void ShardedUnits::post_backward(size_t use) {
  if (reduce_at_end_[unit_of(use)] || !options().overlap_reduction) return;
  reshard_and_reduce(group_of(use));
}

void ShardedUnits::reshard_and_reduce(ParamGroup& group) {
  reshard_after_backward(group);
  reduce(group);
}

void ShardedUnits::finish(ParamGroup& group) {
  if (group.gradients().any_new()) reshard_and_reduce(group);
}

void ShardedUnits::forget_pass() {
  std::fill(reduce_at_end_.begin(), reduce_at_end_.end(), false);
  std::fill(gathers_in_backward_.begin(), gathers_in_backward_.end(), false);
}

}  // namespace am::parallel
