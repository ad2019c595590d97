#include "am/parallel/parallel_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/layout/backend_choice.h"
#include "am/layout/precision.h"
#include "am/layout/runs.h"
#include "am/layout/stage_layout.h"
#include "am/layout/stages.h"
#include "am/nn/fused/cross_entropy.h"
#include "am/runtime/device_error.h"
#include "am/runtime/engine_plugin.h"
#include "am/tensor/dtype.h"

namespace am::parallel {

ParallelModel::ParallelModel(const config::Plan& plan, const model::ModelConfig& config,
                             const layout::Layout& layout, const runtime::DeviceMesh& mesh)
    : ShardedParameters(layout, mesh), config_(config), strategy_(plan.strategy) {}

std::unique_ptr<ParallelModel> ParallelModel::build(const config::Plan& plan,
                                                    const model::ModelConfig& config,
                                                    const layout::Layout& layout,
                                                    const runtime::DeviceMesh& mesh,
                                                    const std::string& strategy) {
  const std::string name = strategy.empty() ? config::strategy_name(plan.strategy) : strategy;
  std::unique_ptr<ParallelModel> model(new ParallelModel(plan, config, layout, mesh));
  const int64_t here = mesh.group("pp").index();
  for (int stage = 0; stage < static_cast<int>(layout.stage_owners.size()); ++stage) {
    if (layout.stage_owners[static_cast<size_t>(stage)] != here) continue;
    model->add_stage(stage,
                     std::make_unique<StageModel>(plan, config, layout::stage_layout(layout, stage),
                                                  layout::stage_range(layout, stage), mesh, name));
  }
  model->add_pipeline(plan);
  return model;
}

void ParallelModel::add_stage(int number, std::unique_ptr<StageModel> stage) {
  add_groups(stage->data_parallel().groups());
  stages_[number] = std::move(stage);
}

void ParallelModel::add_pipeline(const config::Plan& plan) {
  std::map<int, Stage> stages;
  for (const auto& [number, stage] : stages_) stages.emplace(number, Stage(*stage));
  const mesh::MeshSizes& sizes = layout().mesh.sizes();
  const pipeline::PipelineShape shape = has_pipeline()
                                            ? layout::pipeline_shape(plan, sizes.pp, sizes.dp())
                                            : pipeline::PipelineShape{};
  const HiddenForm hidden = {
      .width = config_.hidden_size,
      .sequence_parts = layout().tp_plan.sequence_parallel ? layout().mesh.sizes().tp : 1,
      .dtype = tensor::parse_dtype(layout::resolve_precision(plan).compute)};
  const model::Inventory& inventory = layout().inventory;
  std::string tied;
  if (has_pipeline() && inventory.tied_lm_head) {
    tied = inventory.parameters[inventory.weight_of(model::Role::kHead)].name;
  }
  pipeline_ = std::make_unique<Pipeline>(pipeline::make_schedule(shape), std::move(stages), mesh(),
                                         hidden, tied);
  pipeline_->defers_gradient_sync = config::defers_gradient_sync(strategy_);
}

StageModel& ParallelModel::whole() const {
  AM_ASSERT(!has_pipeline(), "the function does not support pipelines");
  return *stages_.begin()->second;
}

std::string ParallelModel::place() const {
  const UnitPlace* last = nullptr;
  for (const auto& [number, stage] : stages_) {
    const UnitPlace& place = stage->data_parallel().place();
    if (last == nullptr || place.since() > last->since()) last = &place;
  }
  return last->text();
}

at::Tensor ParallelModel::forward_backward(MicroBatches& batches, const PassOptions& options) {
  return runtime::with_place(
      mesh().device(), [this] { return place(); },
      [&] { return pipeline_->run(batches, options); });
}

at::Tensor ParallelModel::forward_only(MicroBatches& batches) {
  return pipeline_->run_forward(batches);
}

at::Tensor ParallelModel::forward(const at::Tensor& ids_BT, const at::Tensor& positions_BT) {
  if (!has_pipeline()) return whole().forward(ids_BT, positions_BT);
  AM_ASSERT(!at::GradMode::is_enabled(), "forward() of a pipeline with grad mode on");
  const runtime::Group& group = mesh().group("pp");
  const auto owner = [this](size_t stage) { return layout().stage_owners[stage]; };
  const int64_t length = stages_.begin()->second->own_length(ids_BT.size(1));
  const size_t last = layout().stage_owners.size() - 1;
  at::Tensor hidden;
  for (size_t stage = 0; stage <= last; ++stage) {
    const auto here = stages_.find(static_cast<int>(stage));
    if (here != stages_.end()) hidden = here->second->forward(ids_BT, positions_BT, hidden);
    if (stage < last && owner(stage) == owner(stage + 1)) continue;
    if (here != stages_.end()) {
      if (stage == last) hidden = here->second->full_logits(hidden).to(at::kFloat);
      hidden = hidden.contiguous();
    } else {
      hidden = stage == last ? at::empty({ids_BT.size(0), length, config_.vocab_size},
                                         at::TensorOptions(mesh().device()))
                             : pipeline_->hidden_like(ids_BT);
    }
    group.broadcast(hidden, owner(stage));
  }
  return hidden;
}

at::Tensor ParallelModel::whole_sequences(const at::Tensor& logits_BTv) const {
  return stages_.begin()->second->whole_sequences(logits_BTv);
}

at::Tensor ParallelModel::loss_sum(const at::Tensor& logits_BTv,
                                   const at::Tensor& labels_BT) const {
  if (!has_pipeline()) return whole().loss_sum(logits_BTv, labels_BT);
  return nn::fused::cross_entropy_sum(logits_BTv, labels_BT, {0, kIgnoreIndex});
}

at::Tensor ParallelModel::full_logits(const at::Tensor& logits_BTv) const {
  return has_pipeline() ? logits_BTv : whole().full_logits(logits_BTv);
}

void ParallelModel::zero_grad() {
  for (const auto& [number, stage] : stages_) stage->data_parallel().zero_grad();
}

void ParallelModel::reshard() {
  for (const auto& [number, stage] : stages_) stage->data_parallel().reshard("");
}

std::vector<int64_t> ParallelModel::take_expert_counts() {
  if (!config_.moe) return {};
  const model::DecoderSpec& spec = layout().inventory.spec;
  std::vector<int64_t> counts;
  auto stage = stages_.begin();
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    if (!spec.layer(layer).router) continue;
    while (stage != stages_.end() && stage->second->range().end <= layer) ++stage;
    const bool here = stage != stages_.end() && stage->second->range().first <= layer;
    const std::vector<int64_t> of_layer =
        here ? stage->second->decoder().take_expert_counts(layer)
             : std::vector<int64_t>(static_cast<size_t>(config_.moe->experts));
    counts.insert(counts.end(), of_layer.begin(), of_layer.end());
  }
  return counts;
}

void ParallelModel::set_balance_factor(double factor) {
  for (const auto& [number, stage] : stages_) stage->decoder().set_balance_factor(factor);
}

at::Tensor ParallelModel::take_balance() {
  at::Tensor sum;
  for (const auto& [number, stage] : stages_) {
    const at::Tensor one = stage->decoder().take_balance();
    if (one.defined()) sum = sum.defined() ? sum + one : one;
  }
  return sum;
}

void check_supported(const config::Plan& plan, Diagnostics& found) {
  layout::refuse(layout::limits_of_plan(plan), "is valid", found);
}

std::string backend_of(const config::Plan& plan) {
  return layout::backend_of(plan, &runtime::why_no_cuda);
}

}  // namespace am::parallel
