#include "am/predict/memory/sampled_memory.h"

#include <algorithm>
#include <utility>

#include "am/layout/stages.h"
#include "am/layout/units.h"
#include "am/predict/memory/layout_summary.h"
#include "am/predict/memory/step_units.h"

namespace am::predict {
namespace {

void add(const UnitBytes& unit, int64_t stage, StepUnits& step) {
  step.units.push_back(unit);
  step.units.back().stage = static_cast<int>(stage);
  step.stored_numel += unit.stored_numel;
  step.quantized_numel += unit.quantized_numel;
  step.trained_numel += unit.trained_numel;
  step.state_numel += unit.state_numel;
}

}  // namespace

SampledLayout::SampledLayout(const config::Plan& plan, const model::ModelConfig& config,
                             const std::vector<model::LayerKind>& kinds,
                             const layout::Layout& sample, const mesh::MeshSizes& sizes)
    : config_(config),
      owners_(pipeline::stage_owners(layout::pipeline_shape(plan.pipeline, sizes.pp))),
      stage_of_(layout::stage_of_layers(plan, config, static_cast<int64_t>(owners_.size()))),
      kind_of_(static_cast<size_t>(config.num_hidden_layers), 0),
      one_(sample) {
  mesh::MeshSizes stage = sizes;
  stage.pp = 1;
  one_.mesh = mesh::MeshLayout(stage);
  one_.stage_owners = {0};
  for (layout::ParameterLayout& parameter : one_.parameters) {
    parameter.stage = 0;
    // Assigns the last stage's copy of a tied embedding table to stage 0, the only stage of one_.
    if (parameter.tied_stage) parameter.tied_stage = 0;
    parameter.fsdp = one_.mesh.group_size(parameter.shard_group) > 1;
  }
  std::vector<model::Unit> units, all;
  for (const model::Unit& unit : sample.units) {
    if (unit.layer > 0) continue;  // layer 0 stands for all layers: the code below adds every kind
    if (unit.layer < 0) {
      units.push_back(unit);
      all.push_back(unit);
      continue;
    }
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      units.push_back(*layer_like(sample, kinds[kind].layers.front()));
      units.back().layer = kinds[kind].layers.front();
      for (const int layer : kinds[kind].layers) kind_of_[static_cast<size_t>(layer)] = kind;
    }
    for (int layer = 0; layer < config.num_hidden_layers; ++layer) {
      all.push_back(unit);
      all.back().layer = layer;
    }
  }
  one_.units = std::move(units);
  const std::vector<bool> reshards = layout::reshard_after_forward(plan.strategy, all, sizes.pp);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].layer >= 0) layer_reshards_.push_back(reshards[i]);
  }
}

std::vector<RankMemory> SampledLayout::worst_of_stages(const config::Plan& plan) const {
  const ActivationContext context = activation_context(plan, one_);
  StepUnits one = measure_units(plan, config_, one_, /*rank=*/0, context);
  const auto positions = *std::max_element(owners_.begin(), owners_.end()) + 1;
  const auto lists = layout::executed_lists(
      layout::pipeline_shape(plan, static_cast<int64_t>(positions), one_.mesh.sizes().dp()));
  const auto last_stage = static_cast<int64_t>(owners_.size()) - 1;
  const std::vector<UnitBytes> units = std::exchange(one.units, {});
  const auto first_layer = std::find_if(units.begin(), units.end(),
                                        [](const UnitBytes& unit) { return unit.layer >= 0; });
  one.stored_numel = one.quantized_numel = one.trained_numel = one.state_numel = 0;
  std::vector<RankMemory> worst;
  for (int64_t position = 0; position < positions; ++position) {
    StepUnits step = one;
    const bool last = owners_.back() == position;
    auto unit = units.begin();
    for (; unit != first_layer; ++unit) {
      if (owners_.front() == position) add(*unit, 0, step);
    }
    for (size_t layer = 0; layer < stage_of_.size(); ++layer) {
      const auto stage = static_cast<size_t>(stage_of_[layer]);
      if (owners_[stage] != position) continue;
      add(*(first_layer + static_cast<int64_t>(kind_of_[layer])), stage_of_[layer], step);
      step.units.back().layer = static_cast<int>(layer);
      step.units.back().reshards = layer_reshards_[layer];
    }
    for (; unit != units.end(); ++unit) {
      if (unit->layer < 0 && last) add(*unit, last_stage, step);
    }
    step.stages = std::count(owners_.begin(), owners_.end(), position);
    const int64_t rank = position * one_.mesh.world_size();  // pp is the outermost axis
    WalkedRank who{.rank = rank, .stage = position, .in_layout = 0, .owners = owners_};
    if (lists) who.list = &lists->at(static_cast<size_t>(position));
    worst.push_back(walk_step(plan, config_, one_, context, step, who));
  }
  return worst;
}

}  // namespace am::predict
