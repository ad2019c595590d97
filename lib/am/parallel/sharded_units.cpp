#include "am/parallel/sharded_units.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/layout/replicas.h"
#include "am/layout/units.h"

namespace am::parallel {

ShardedUnits::ShardedUnits(const ModelUnits& model, const layout::Layout& layout,
                           const runtime::DeviceMesh& mesh, DataParallelOptions given)
    : DataParallel(model, layout, mesh, std::move(given)),
      uses_(model.uses),
      reduce_at_end_(layout.units.size(), false),
      gathers_in_backward_(layout.units.size(), false) {
  AM_ASSERT(options().reshard_after_forward.size() == layout.units.size(),
            "reshard_after_forward must have one value per unit");
  const Ranks ranks = ranks_of(layout, mesh);
  const runtime::Group* dense_blocks = post_forward(mesh, "dp_shard_cp");
  const runtime::Group* expert_blocks =
      layout.mesh.sizes().ep > 1 ? post_forward(mesh, "ep_shard") : nullptr;
  ParamGroupOptions group = group_options();
  for (const auto& unit : layout.units) {
    std::vector<ParamGroup*>& groups = units_.emplace_back();
    group.pool = options().reuse_buffers && unit.layer >= 0 ? &pool_ : nullptr;
    for (const layout::GatheredPart& part :
         layout::gathered_parts(layout, layout.gathered(unit), mesh.rank())) {
      group.quantized = part.quantized;
      group.post_forward_group = part.experts ? expert_blocks : dense_blocks;
      groups.push_back(&add_group(
          model, layout,
          cat(unit.name, part.quantized ? ", quantized" : "", part.experts ? ", experts" : ""),
          part.parameters, mesh, part.experts ? ranks.experts : ranks.dense, group));
    }
  }
  group.quantized = false;
  add_ignored(model, layout, mesh, ranks, group);
}

const runtime::Group* ShardedUnits::post_forward(const runtime::DeviceMesh& mesh,
                                                 std::string_view group) {
  const int64_t size =
      layout::post_forward_size(options().post_forward_size, mesh.group(group).size());
  return size > 0 ? &post_forward_groups_.emplace_back(mesh.split(group, size)) : nullptr;
}

void ShardedUnits::add_ignored(const ModelUnits& model, const layout::Layout& layout,
                               const runtime::DeviceMesh& mesh, Ranks ranks,
                               ParamGroupOptions group) {
  group.pool = nullptr;
  group.post_forward_group = nullptr;
  ranks.dense.shard = ranks.experts.shard = &alone();
  const layout::ReplicaAxes axes = layout::replica_axes(layout, /*ignored=*/true);
  ranks.dense.replicate = &mesh.group(axes.dense);
  ranks.experts.replicate = &mesh.group(axes.experts);
  const layout::Layout::ByRanks own = layout.by_ranks(layout.ignored(), mesh.rank());
  for (const auto& [indices, of] :
       {std::pair{&own.dense, &ranks.dense}, std::pair{&own.experts, &ranks.experts}}) {
    if (indices->empty()) continue;
    ignored_.push_back(&add_group(model, layout, "ignored", *indices, mesh, *of, group));
  }
}

void ShardedUnits::unshard(size_t use) {
  for (ParamGroup* group : groups_of(use)) group->prefetch();
  for (ParamGroup* group : groups_of(use)) group->unshard();
}

void ShardedUnits::before_unit(size_t use, std::span<at::Tensor> inputs) {
  enter(use);
  if (use == 0) gathers().wait_for_current();  // gathers must read the updated parameters
  for (ParamGroup* group : ignored_) group->unshard();
  unshard(use);
  prefetch(use, +1, options().prefetch.forward);
  cast_inputs(inputs);
  if (!at::GradMode::is_enabled()) return;
  const auto carries = [](const at::Tensor& input) { return input.requires_grad(); };
  const auto differentiable = std::count_if(inputs.begin(), inputs.end(), carries);
  if (differentiable == 0) {
    // No input requires a gradient, so no hook on an input can detect the end of the unit's
    // backward. finish(), which runs at the end of the whole backward pass, reduces the unit's
    // gradients.
    reduce_at_end_[unit_of(use)] = true;
    return;
  }
  // Hooks on views of the inputs detect the end of the unit's backward. Autograd calls the hook of
  // a view when backward has passed every use of the view inside the unit. Autograd accumulates the
  // gradients of leaves before it runs any other ready node, so the parameters' gradients are
  // complete too. The hook that runs last calls post_backward().
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
  leave(use, outputs);
  for (const at::Tensor& output : outputs) {
    if (!at::GradMode::is_enabled() || !output.requires_grad()) continue;
    if (!uses_[use].backward_reads_parameters) continue;
    gathers_in_backward_[unit_of(use)] = true;
    output.register_hook([this, use](const at::Tensor&) { pre_backward(use); });
  }
  if (!options().reshard_after_forward[unit_of(use)]) return;
  for (ParamGroup* group : groups_of(use)) group->reshard_after_forward();
}

// Starts the gathers of the units that run in the next `depth` uses: the uses after `use` in
// forward order if `step` is +1, the uses before `use` if `step` is -1. With `step` -1, skips units
// whose backward reads no parameters.
void ShardedUnits::prefetch(size_t use, int step, int64_t depth) {
  auto place = static_cast<int64_t>(use);
  for (int64_t i = 0; i < depth; ++i) {
    place += step;
    if (place < 0 || place >= static_cast<int64_t>(uses_.size())) return;
    const auto next = static_cast<size_t>(place);
    if (step < 0 && !gathers_in_backward_[unit_of(next)]) continue;
    for (ParamGroup* group : groups_of(next)) group->prefetch();
  }
}

void ShardedUnits::pre_backward(size_t use) {
  unshard(use);
  prefetch(use, -1, options().prefetch.backward);
}

void ShardedUnits::post_backward(size_t use) {
  if (reduce_at_end_[unit_of(use)] || !options().overlap_reduction) return;
  reshard_and_reduce(groups_of(use));
}

void ShardedUnits::reshard_and_reduce(std::span<ParamGroup* const> groups) {
  for (ParamGroup* group : groups) reshard_after_backward(*group);
  reduce(groups);
}

void ShardedUnits::finish(ParamGroup& group) {
  if (!group.gradients().any_new()) return;
  reshard_after_backward(group);
  reduce(group);
}

void ShardedUnits::forget_pass() {
  std::fill(reduce_at_end_.begin(), reduce_at_end_.end(), false);
  std::fill(gathers_in_backward_.begin(), gathers_in_backward_.end(), false);
}

}  // namespace am::parallel
