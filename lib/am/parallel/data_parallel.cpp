#include "am/parallel/data_parallel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/text.h"
#include "am/layout/replicas.h"
#include "am/parallel/sharded_units.h"
#include "am/runtime/device_error.h"
#include "am/tensor/finite.h"

namespace am::parallel {

namespace {

std::vector<std::string> names_of_uses(const ModelUnits& model, const layout::Layout& layout) {
  std::vector<std::string> names;
  for (const nn::UnitUse& use : model.uses) {
    const model::Unit& unit = layout.units.at(static_cast<size_t>(use.unit));
    names.push_back(unit.kind == model::UnitKind::kRoot ? kRootUnit : unit.name);
  }
  return names;
}

// Buckets whose gradients are reduced in one message per bucket: DDP, and Megatron-FSDP with
// disable_bucketing. The full parameters of all buckets are in memory from the first unit's forward
// until backward is over.
class GradientBuckets final : public DataParallel {
 public:
  GradientBuckets(const ModelUnits& model, const layout::Layout& layout,
                  const runtime::DeviceMesh& mesh, DataParallelOptions given)
      : DataParallel(model, layout, mesh, std::move(given)) {
    const Ranks ranks = ranks_of(layout, mesh);
    for (const auto& bucket : options().buckets) {
      const layout::Layout::ByRanks own = layout.by_ranks(bucket, mesh.rank());
      const bool of_experts = !own.experts.empty();
      // Skips a bucket that contains only experts of other ranks.
      if (own.dense.empty() && !of_experts) continue;
      ParamGroup& added = add_group(model, layout, cat("bucket ", groups().size()),
                                    of_experts ? own.experts : own.dense, mesh,
                                    of_experts ? ranks.experts : ranks.dense, group_options());
      // An expert's gradient may arrive in several parts (nn/experts/expert_feed_forward.h), so a
      // bucket of experts is reduced after backward, when all parts have arrived.
      if (!options().overlap_reduction || of_experts) continue;
      added.gradients().on_complete([this, &added] {
        if (requires_gradient_sync()) reduce(added);
      });
    }
  }

  void before_unit(size_t use, std::span<at::Tensor> inputs) override {
    enter(use);
    for (auto& group : groups()) group->unshard();
    cast_inputs(inputs);
  }

  void after_unit(size_t use, std::span<at::Tensor> outputs) override { leave(use, outputs); }

 private:
  void finish(ParamGroup& group) override {
    if (group.gradients().any_new()) reduce(group);
  }
};

}  // namespace

std::unique_ptr<DataParallel> DataParallel::make(const ModelUnits& model,
                                                 const layout::Layout& layout,
                                                 const runtime::DeviceMesh& mesh,
                                                 DataParallelOptions options) {
  std::unique_ptr<DataParallel> made;
  if (options.buckets.empty()) {
    made = std::make_unique<ShardedUnits>(model, layout, mesh, std::move(options));
  } else {
    made = std::make_unique<GradientBuckets>(model, layout, mesh, std::move(options));
  }
  return made;
}

DataParallel::DataParallel(const ModelUnits& model, const layout::Layout& layout,
                           const runtime::DeviceMesh& mesh, DataParallelOptions options)
    : options_(std::move(options)),
      rank_(mesh.rank()),
      alone_("alone", mesh.rank()),
      place_(names_of_uses(model, layout)),
      gathers_(mesh.device()),
      reductions_(mesh.device()) {
  if (mesh.device().is_cpu()) options_.offload.reset();
}

ParamGroupOptions DataParallel::group_options() {
  ParamGroupOptions group;
  group.storage_dtype = options_.storage_dtype;
  group.precision = options_.precision;
  group.offload = options_.offload;
  group.report_nan = options_.report_nan;
  group.gathers = &gathers_;
  group.reductions = &reductions_;
  return group;
}

ParamGroup& DataParallel::add_group(const ModelUnits& model, const layout::Layout& layout,
                                    std::string name, const std::vector<int>& parameters,
                                    const runtime::DeviceMesh& mesh, const ReductionGroups& groups,
                                    const ParamGroupOptions& options) {
  std::vector<ParamGroup::Member> members;
  for (const int index : parameters) {
    members.push_back({model.parameters.at(static_cast<size_t>(index)),
                       &layout.parameters.at(static_cast<size_t>(index))});
  }
  std::string place = cat("the parameters of ", name);
  runtime::with_place(
      mesh.device(), [&] { return place; },
      [&] {
        groups_.push_back(std::make_unique<ParamGroup>(std::move(name), std::move(members), mesh,
                                                       groups, options));
      });
  const bool of_experts =
      !parameters.empty() &&
      layout.parameters.at(static_cast<size_t>(parameters.front())).expert_parallel();
  if (of_experts && fault::is_planted(fault::Fault::kEpDivide)) {
    groups_.back()->gradients().set_divide_factor(static_cast<double>(mesh.group("ep").size()));
  }
  return *groups_.back();
}

DataParallel::Ranks DataParallel::ranks_of(const layout::Layout& layout,
                                           const runtime::DeviceMesh& mesh) {
  int64_t copies = 1;
  for (const layout::ParameterLayout& parameter : layout.parameters) {
    for (const mesh::DimSlice& slice : parameter.tp_slices) {
      AM_ASSERT(copies == 1 || slice.copies == 1 || slice.copies == copies,
                "all layers must have the same number of copies of each key head");
      copies = std::max(copies, slice.copies);
    }
  }
  if (copies > 1) key_head_group_ = mesh.split("tp", copies);
  const layout::ReplicaAxes axes = layout::replica_axes(layout, /*ignored=*/false);
  const runtime::Group& ep_shard = mesh.group("ep_shard");
  const bool cuts_experts = axes.experts.empty();
  return {
      .dense = {axes.dense == "dp_cp" ? &alone_ : &mesh.group("dp_shard_cp"),
                &mesh.group(axes.dense), &mesh.group("tp"),
                key_head_group_ ? &*key_head_group_ : nullptr},
      .experts = {cuts_experts ? &ep_shard : &alone_, cuts_experts ? &alone_ : &ep_shard, &alone_}};
}

void DataParallel::cast_inputs(std::span<at::Tensor> inputs) const {
  const auto& dtype = options_.precision.param_dtype;
  if (!options_.cast_forward_inputs || !dtype) return;
  for (at::Tensor& input : inputs) {
    if (input.is_floating_point()) input = input.to(*dtype);
  }
}

void DataParallel::reduce(std::span<ParamGroup* const> groups) {
  const runtime::TraceRange range([&] {
    return groups.empty() ? "reduce"
                          : cat("reduce ", groups.front()->name().empty() ? kRootUnit
                                                                          : groups.front()->name());
  });
  Reduction reduction;
  for (ParamGroup* group : groups) {
    if (sync_) {
      reduction.push_back(&group->gradients());
    } else {
      group->gradients().keep();
    }
  }
  send(std::move(reduction));
}

// Starts the reduction of a unit's or a bucket's gradients. While the next unit computes, the
// reduce-scatter of this unit and the all-reduce of the previous unit are in flight.
void DataParallel::send(Reduction reduction) {
  std::erase_if(reduction, [](GradientReducer* each) { return !each->begin_reduce(); });
  if (reduction.empty()) return;
  reducing_.push_back(std::move(reduction));
  for (size_t i = 0; i + 1 < reducing_.size(); ++i) {
    for (GradientReducer* each : reducing_[i]) each->advance_reduce();
  }
  const auto in_flight = [](const GradientReducer* each) { return each->in_flight(); };
  while (reducing_.size() > 2 ||
         (reducing_.size() > 1 &&
          std::none_of(reducing_.front().begin(), reducing_.front().end(), in_flight))) {
    for (GradientReducer* each : reducing_.front()) each->finish_reduce();
    reducing_.pop_front();
  }
}

void DataParallel::enter(size_t use) {
  place_.forward(use);
  forward_range_.emplace([&] { return cat("forward ", place_.name(use)); });
}

void DataParallel::leave(size_t use, std::span<const at::Tensor> outputs) {
  forward_range_.reset();
  if (!at::GradMode::is_enabled()) return;
  for (const at::Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    if (!tensor::is_asynchronous(output.device()) && !runtime::is_traced()) continue;
    output.register_hook([this, use, device = output.device()](const at::Tensor&) {
      place_.backward(use);
      backward_range_.reset();  // ends before the next range begins, so that ranges nest
      // A range must end on the thread on which it began. On a GPU, this hook runs on a thread of
      // autograd. finish_backward(), which would end the range of the first unit, runs on another
      // thread. The first unit therefore gets no range.
      if (use == 0 && tensor::is_asynchronous(device)) return;
      backward_range_.emplace([&] { return cat("backward ", place_.name(use)); });
    });
  }
}

void DataParallel::finish_backward() {
  backward_range_.reset();
  for (auto& group : groups_) {
    finish(*group);
    reshard_after_backward(*group);
  }
  forget_pass();
  place_.nowhere();
  if (!last_backward_) return;
  finish_reductions();
  if (options_.check_for_nan && sync_) check_gradients();
}

void DataParallel::reduce_gradients() {
  for (auto group = groups_.rbegin(); group != groups_.rend(); ++group) {
    send({&(*group)->gradients()});
  }
  finish_reductions();
  if (options_.check_for_nan) check_gradients();
}

void DataParallel::finish_reductions() {
  for (const Reduction& reduction : reducing_) {
    for (GradientReducer* each : reduction) each->finish_reduce();
  }
  reducing_.clear();
  reductions_.current_waits();
  if (offloaded()) reductions_.host_waits();
}

void DataParallel::set_gradient_divide_factor(double factor) {
  for (auto& group : groups_) group->gradients().set_divide_factor(factor);
}

std::vector<ParamGroup*> DataParallel::groups_of(std::string_view module) const {
  std::vector<ParamGroup*> found;
  const std::string prefix = module.empty() ? "" : cat(module, ".");
  for (const auto& group : groups_) {
    const auto& owned = group->owned();
    const bool holds = std::any_of(owned.begin(), owned.end(), [&](const LocalParameter& each) {
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
                  cat(count, " of ", bad.numel(), " values in the gradient of ",
                      group->owned()[i].name, " are not finite on rank ", rank_),
                  "use a lower learning rate, or set check_for_nan_in_grad = false to continue "
                  "nevertheless");
    }
  }
}

void DataParallel::zero_grad() {
  for (auto& group : groups_) group->zero_grad();
}

}  // namespace am::parallel
