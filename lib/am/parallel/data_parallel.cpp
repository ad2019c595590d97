#include "am/parallel/data_parallel.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::parallel {

DataParallel::DataParallel(nn::Decoder& decoder, const planner::Layout& layout,
                           const runtime::DeviceMesh& mesh, DataParallelOptions options)
    : options_(std::move(options)), rank_(mesh.rank()), reduce_at_end_(layout.units.size(), false) {
  AM_ASSERT(options_.reshard_after_forward.size() == layout.units.size(), "an option per unit");
  for (const auto& unit : layout.units) {
    std::vector<nn::ParameterPtr> parameters;
    std::vector<const planner::ParameterLayout*> layouts;
    for (const int index : unit.parameters) {
      parameters.push_back(decoder.parameters().at(static_cast<size_t>(index)));
      layouts.push_back(&layout.parameters.at(static_cast<size_t>(index)));
    }
    groups_.push_back(std::make_unique<ParamGroup>(unit.name, std::move(parameters),
                                                   std::move(layouts), mesh, options_.storage_dtype,
                                                   options_.precision));
  }
  forward_order_ = decoder.forward_units();
  decoder.set_hooks(this);
}

at::Tensor DataParallel::before_unit(int unit, const at::Tensor& input) {
  at::Tensor x = input;
  inside_lookup_ = !x.is_floating_point();
  groups_[static_cast<size_t>(unit)]->unshard();
  prefetch(unit, +1, options_.prefetch.forward);
  if (options_.cast_forward_inputs && options_.precision.param_dtype && x.is_floating_point()) {
    x = x.to(*options_.precision.param_dtype);
  }
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
  // A look-up's backward reads no parameter, so it gathers none.
  if (at::GradMode::is_enabled() && output.requires_grad() && !inside_lookup_) {
    output.register_hook([this, unit](const at::Tensor&) { pre_backward(unit); });
  }
  if (options_.reshard_after_forward[static_cast<size_t>(unit)]) {
    groups_[static_cast<size_t>(unit)]->reshard();
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
    const bool looked_up = step < 0 && reduce_at_end_[next];
    if (!looked_up) groups_[next]->begin_unshard();
  }
}

void DataParallel::pre_backward(int unit) {
  groups_[static_cast<size_t>(unit)]->unshard();
  prefetch(unit, -1, options_.prefetch.backward);
}

void DataParallel::post_backward(int unit) {
  if (reduce_at_end_[static_cast<size_t>(unit)]) return;
  if (!options_.overlap_reduction) return;
  ParamGroup& group = *groups_[static_cast<size_t>(unit)];
  group.begin_reduce(sync_);
  group.reshard();
  if (!sync_) return;
  // One reduction is in flight while the next unit computes.
  if (reducing_ >= 0) groups_[static_cast<size_t>(reducing_)]->finish_reduce();
  reducing_ = unit;
}

void DataParallel::finish_backward() {
  for (auto& group : groups_) {
    if (group->has_new_gradients()) group->begin_reduce(sync_);
  }
  for (auto& group : groups_) {
    group->finish_reduce();
    group->reshard();
  }
  reducing_ = -1;
  if (options_.check_for_nan && sync_) check_gradients();
  std::fill(reduce_at_end_.begin(), reduce_at_end_.end(), false);
}

void DataParallel::check_gradients() const {
  for (const auto& group : groups_) {
    // One pass: a sum over anything that is not finite is not finite.
    const at::Tensor& flat = group->flat_grad();
    if (!flat.defined() || flat.is_meta() || at::isfinite(flat.sum()).item<bool>()) continue;
    for (size_t i = 0; i < group->owned().size(); ++i) {
      const at::Tensor bad = at::isfinite(group->view_in(flat, i)).logical_not();
      const auto count = bad.sum().item<int64_t>();
      if (count == 0) continue;
      throw Error(ErrorKind::kRuntime,
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
