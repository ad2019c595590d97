#include "am/parallel/data_parallel.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/tensor/finite.h"

namespace am::parallel {

DataParallel::DataParallel(nn::Decoder& decoder, const planner::Layout& layout,
                           const runtime::DeviceMesh& mesh, DataParallelOptions options)
    : options_(std::move(options)),
      rank_(mesh.rank()),
      reduce_at_end_(layout.units.size(), false),
      gathers_in_backward_(layout.units.size(), false) {
  AM_ASSERT(options_.reshard_after_forward.size() == layout.units.size(), "an option per unit");
  if (mesh.device().is_cpu()) options_.offload.reset();
  ParamGroupOptions group;
  group.storage_dtype = options_.storage_dtype;
  group.precision = options_.precision;
  group.offload = options_.offload;
  if (options_.post_forward_size > 0 &&
      options_.post_forward_size < mesh.group("dp_shard_cp").size()) {
    post_forward_group_ = mesh.split("dp_shard_cp", options_.post_forward_size);
    group.post_forward_group = &*post_forward_group_;
  }
  add_groups(decoder, layout, mesh, group);
  forward_order_ = decoder.forward_units();
  decoder.set_hooks(this);
}

void DataParallel::add_groups(const nn::Decoder& decoder, const planner::Layout& layout,
                              const runtime::DeviceMesh& mesh, ParamGroupOptions options) {
  const ReductionGroups groups = {&mesh.group("dp_shard_cp"), &mesh.group("dp_replicate"),
                                  &mesh.group("tp")};
  for (const auto& bucket : options_.buckets) {
    add_group(decoder, layout, cat("bucket ", groups_.size()), bucket, mesh, groups, options);
    if (!options_.overlap_reduction) continue;
    ParamGroup& added = *groups_.back();
    added.gradients().on_complete([this, &added] {
      if (sync_) reduce(added);
    });
  }
  if (!options_.buckets.empty()) return;
  for (const auto& unit : layout.units) {
    options.pool = options_.reuse_buffers && unit.layer >= 0 ? &pool_ : nullptr;
    add_group(decoder, layout, unit.name, layout.gathered(unit), mesh, groups, options);
  }
  const std::vector<int> ignored = layout.ignored();
  if (ignored.empty()) return;
  options.pool = nullptr;
  options.post_forward_group = nullptr;
  alone_ = mesh.split("dp_cp", 1);
  add_group(decoder, layout, "ignored", ignored, mesh,
            {&*alone_, &mesh.group("dp_cp"), &mesh.group("tp")}, options);
  ignored_ = groups_.back().get();
}

void DataParallel::add_group(const nn::Decoder& decoder, const planner::Layout& layout,
                             std::string name, const std::vector<int>& parameters,
                             const runtime::DeviceMesh& mesh, const ReductionGroups& groups,
                             const ParamGroupOptions& options) {
  std::vector<ParamGroup::Member> members;
  for (const int index : parameters) {
    members.push_back({decoder.parameters().at(static_cast<size_t>(index)),
                       &layout.parameters.at(static_cast<size_t>(index))});
  }
  groups_.push_back(
      std::make_unique<ParamGroup>(std::move(name), std::move(members), mesh, groups, options));
}

at::Tensor DataParallel::cast_input(const at::Tensor& x) const {
  const auto& dtype = options_.precision.param_dtype;
  const bool cast = options_.cast_forward_inputs && dtype && x.is_floating_point();
  return cast ? x.to(*dtype) : x;
}

at::Tensor DataParallel::before_unit(int unit, const at::Tensor& input) {
  if (!options_.buckets.empty()) {
    for (auto& group : groups_) group->unshard();
    return cast_input(input);
  }
  inside_lookup_ = !input.is_floating_point();
  if (ignored_ != nullptr) ignored_->unshard();
  groups_[static_cast<size_t>(unit)]->unshard();
  prefetch(unit, +1, options_.prefetch.forward);
  at::Tensor x = cast_input(input);
  if (!at::GradMode::is_enabled()) return x;
  if (!x.requires_grad()) {
    // Nothing will flow back through this input, so no hook can tell when the unit's backward is
    // over.
    reduce_at_end_[static_cast<size_t>(unit)] = true;
    return x;
  }
  // The view's own gradient is complete when every use of it inside the unit has been through
  // backward; autograd runs the accumulation of leaves before any other ready node, so the
  // parameters' gradients are there too.
  x = x.view_as(x);
  x.register_hook([this, unit](const at::Tensor&) { post_backward(unit); });
  return x;
}

at::Tensor DataParallel::after_unit(int unit, const at::Tensor& output) {
  if (!options_.buckets.empty()) return output;
  // A look-up's backward reads no parameter, so it gathers none.
  if (at::GradMode::is_enabled() && output.requires_grad() && !inside_lookup_) {
    gathers_in_backward_[static_cast<size_t>(unit)] = true;
    output.register_hook([this, unit](const at::Tensor&) { pre_backward(unit); });
  }
  if (options_.reshard_after_forward[static_cast<size_t>(unit)]) {
    groups_[static_cast<size_t>(unit)]->reshard_after_forward();
  }
  return output;
}

// Gathers the next `depth` units in the forward order's direction `step`.
void DataParallel::prefetch(int unit, int step, int64_t depth) {
  if (depth == 0) return;
  // The embedding's look-up comes first; its use as a head, the only one with a backward, last.
  const auto at = std::find(forward_order_.rbegin(), forward_order_.rend(), unit);
  int64_t position = step > 0 && inside_lookup_ ? 0 : forward_order_.rend() - at - 1;
  for (int64_t i = 0; i < depth; ++i) {
    position += step;
    if (position < 0 || position >= static_cast<int64_t>(forward_order_.size())) return;
    const auto next = static_cast<size_t>(forward_order_[static_cast<size_t>(position)]);
    if (step > 0 || gathers_in_backward_[next]) groups_[next]->begin_unshard();
  }
}

void DataParallel::pre_backward(int unit) {
  groups_[static_cast<size_t>(unit)]->unshard();
  prefetch(unit, -1, options_.prefetch.backward);
}

void DataParallel::post_backward(int unit) {
  if (reduce_at_end_[static_cast<size_t>(unit)]) return;
  if (!options_.overlap_reduction) return;
  reduce(*groups_[static_cast<size_t>(unit)]);
}

// One unit's shards are under way while the next unit computes, and one's replicas.
void DataParallel::reduce(ParamGroup& group) {
  ParamGradients& gradients = group.gradients();
  if (options_.buckets.empty()) group.reshard();
  if (!sync_) {
    gradients.keep();
    return;
  }
  if (!gradients.begin_reduce()) return;
  reducing_.push_back(&gradients);
  for (size_t i = 0; i + 1 < reducing_.size(); ++i) reducing_[i]->advance_reduce();
  while (reducing_.size() > 2 || (reducing_.size() > 1 && !reducing_.front()->in_flight())) {
    reducing_.front()->finish_reduce();
    reducing_.pop_front();
  }
}

void DataParallel::finish_backward() {
  for (auto& group : groups_) {
    if (group->gradients().any_new()) reduce(*group);
    group->reshard();
  }
  std::fill(reduce_at_end_.begin(), reduce_at_end_.end(), false);
  std::fill(gathers_in_backward_.begin(), gathers_in_backward_.end(), false);
  if (!last_backward_) return;
  for (ParamGradients* gradients : reducing_) gradients->finish_reduce();
  reducing_.clear();
  if (options_.check_for_nan && sync_) check_gradients();
}

void DataParallel::set_gradient_divide_factor(double factor) {
  for (auto& group : groups_) group->gradients().set_divide_factor(factor);
}

std::vector<ParamGroup*> DataParallel::groups_of(std::string_view module) const {
  std::vector<ParamGroup*> found;
  const std::string prefix = module.empty() ? "" : cat(module, ".");
  for (const auto& group : groups_) {
    const auto& owned = group->owned();
    const bool holds = std::any_of(owned.begin(), owned.end(), [&](const OwnedParameter& each) {
      return each.name.starts_with(prefix);
    });
    if (holds) found.push_back(group.get());
  }
  if (found.empty()) throw Error(ErrorKind::kUsage, cat("no module named ", module));
  return found;
}

UnshardHandle DataParallel::unshard(std::string_view module, bool async_op) {
  const std::vector<ParamGroup*> groups = groups_of(module);
  for (ParamGroup* group : groups) group->begin_unshard();
  UnshardHandle handle(groups);
  if (!async_op) handle.wait();
  return handle;
}

void DataParallel::reshard(std::string_view module) {
  for (ParamGroup* group : groups_of(module)) group->reshard();
}

void UnshardHandle::wait() {
  for (ParamGroup* group : groups_) group->unshard();
  groups_.clear();
}

void DataParallel::check_gradients() const {
  for (const auto& group : groups_) {
    const at::Tensor& flat = group->flat_grad();
    if (tensor::all_finite(flat)) continue;
    for (size_t i = 0; i < group->owned().size(); ++i) {
      if (!group->owned()[i].trainable) continue;
      const at::Tensor bad = at::isfinite(group->view_in(flat, i)).logical_not();
      const auto count = bad.sum().item<int64_t>();
      if (count == 0) continue;
      throw Error(ErrorKind::kNumeric,
                  cat("the gradient of ", group->owned()[i].name, " has ", count, " of ",
                      bad.numel(), " values that are not finite on rank ", rank_),
                  "a lower learning rate, or check_for_nan_in_grad = false to go on all the same");
    }
  }
}

void DataParallel::zero_grad() {
  for (auto& group : groups_) group->zero_grad();
}

}  // namespace am::parallel
