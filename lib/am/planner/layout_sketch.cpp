#include "am/planner/layout_sketch.h"

#include <algorithm>
#include <optional>

#include "am/planner/activations.h"
#include "am/planner/stages.h"

namespace am::planner {
namespace {

double elements(const Layout& layout, const ParameterLayout& parameter) {
  return static_cast<double>(numel(parameter.tp_shape(layout.mesh, /*rank=*/0)));
}

// Whether the first ep rank holds it; all hold as much.
bool is_counted(const ParameterLayout& parameter) { return parameter.ep_owner.value_or(0) == 0; }

LocalParameters sum_of(const Layout& layout, const std::vector<int>& indices) {
  LocalParameters sum;
  for (const int index : indices) {
    const ParameterLayout& parameter = layout.parameters[static_cast<size_t>(index)];
    if (!is_counted(parameter)) continue;
    const auto kind = layout.inventory.parameters[static_cast<size_t>(index)].module_kind;
    double& kept = kind == model::ModuleKind::kExpert ? sum.experts : sum.dense;
    kept += elements(layout, parameter);
  }
  return sum;
}

bool is_checkpointed(const config::Plan& plan, int layer) {
  return checkpointing_of(plan) != config::ActivationCheckpointing::kOff &&
         (layer + 1) % checkpointing_every(plan) == 0;
}

void count_choices(const model::ModelConfig& config, const Layout& layout, LayoutSketch& sketch) {
  double all = 0.0;
  double trained = 0.0;
  double ignored = 0.0;
  std::optional<size_t> first;  // that trains, in forward order
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const ParameterLayout& parameter = layout.parameters[i];
    const auto whole = static_cast<double>(numel(parameter.shape));
    all += whole;
    if (parameter.ignored) ignored += whole;
    if (!parameter.trainable) continue;
    trained += whole;
    if (!first.has_value()) first = i;
  }
  sketch.trained = trained / all;
  sketch.ignored = ignored / all;
  if (!first.has_value()) return;
  const model::ParameterSpec& spec = layout.inventory.parameters[*first];
  if (spec.module_kind == model::ModuleKind::kEmbedding) return;
  // Backward ends with the first layer that has something to train.
  const auto layers = static_cast<double>(config.num_hidden_layers);
  sketch.backward_layers = 1.0 - (spec.layer >= 0 ? spec.layer : layers) / layers;
}

}  // namespace

const model::Unit* layer_like(const Layout& layout, int layer) {
  const std::vector<int>& kinds = layout.inventory.spec.kind_of_layer;
  const auto kind = [&](int of) { return kinds[static_cast<size_t>(of)]; };
  const auto found =
      std::find_if(layout.units.begin(), layout.units.end(), [&](const model::Unit& unit) {
        return unit.layer >= 0 && !unit.parameters.empty() && kind(unit.layer) == kind(layer);
      });
  return found == layout.units.end() ? nullptr : &*found;
}

std::vector<StageSketch> empty_stages(const std::vector<int64_t>& owners, size_t kinds) {
  const std::vector<double> none(kinds, 0.0);
  std::vector<StageSketch> stages;
  for (const int64_t owner : owners) {
    stages.push_back({.owner = owner, .layers = none, .checkpointed = none, .parameters = {}});
  }
  return stages;
}

int64_t LayoutSketch::positions() const {
  int64_t most = 0;
  for (const StageSketch& stage : stages) most = std::max(most, stage.owner);
  return most + 1;
}

LocalParameters LayoutSketch::parameters_of(int64_t position) const {
  LocalParameters sum;
  for (const StageSketch& stage : stages) {
    if (stage.owner == position) sum.add(stage.parameters);
  }
  return sum;
}

int64_t LayoutSketch::fullest_position() const {
  std::vector<double> totals(static_cast<size_t>(positions()), 0.0);
  for (const StageSketch& stage : stages) {
    totals[static_cast<size_t>(stage.owner)] += stage.parameters.total();
  }
  return std::max_element(totals.begin(), totals.end()) - totals.begin();
}

LocalCuts local_cuts(const model::ModelConfig& config, const Layout& layout) {
  LocalCuts cuts;
  cuts.kinds = model::layer_kinds(config);
  for (const model::LayerKind& kind : cuts.kinds) {
    const model::Unit* unit = layer_like(layout, kind.layers.front());
    cuts.of_layer.push_back(unit != nullptr ? sum_of(layout, unit->parameters) : LocalParameters{});
  }
  for (const model::Unit& unit : layout.units) {
    if (unit.layer >= 0) continue;
    const bool embedding = unit.kind == model::UnitKind::kEmbedding;
    (embedding ? cuts.first : cuts.last).add(sum_of(layout, unit.parameters));
    for (const int index : unit.parameters) {
      const auto i = static_cast<size_t>(index);
      if (layout.inventory.parameters[i].role == model::Role::kEmbedding) {
        cuts.table = elements(layout, layout.parameters[i]);
        cuts.tied = layout.inventory.tied_lm_head;
      }
    }
  }
  return cuts;
}

LayoutSketch sketch_stages(const config::Plan& plan, const model::ModelConfig& config,
                           const mesh::MeshSizes& sizes, const LocalCuts& cuts) {
  LayoutSketch sketch;
  sketch.of_layer = cuts.of_layer;
  sketch.table = cuts.table;
  const auto owners = pipeline::stage_owners(pipeline_shape(plan.pipeline, sizes.pp));
  const size_t kinds = cuts.of_layer.size();
  sketch.stages = empty_stages(owners, kinds);
  const std::vector<int> stage_of =
      stage_of_layers(plan, config, static_cast<int64_t>(owners.size()));
  for (size_t kind = 0; kind < kinds; ++kind) {
    for (const int layer : cuts.kinds[kind].layers) {
      StageSketch& stage = sketch.stages[static_cast<size_t>(stage_of[static_cast<size_t>(layer)])];
      stage.layers[kind] += 1.0;
      if (is_checkpointed(plan, layer)) stage.checkpointed[kind] += 1.0;
      stage.parameters.add(cuts.of_layer[kind]);
    }
  }
  sketch.stages.front().parameters.add(cuts.first);
  sketch.stages.back().parameters.add(cuts.last);
  if (cuts.tied && sketch.stages.size() > 1) sketch.stages.back().parameters.dense += cuts.table;

  const auto size = [](int64_t ranks) { return static_cast<double>(ranks); };
  sketch.dense = {.shards = size(sizes.dp_shard * sizes.cp),
                  .replicas = size(sizes.dp_replicate),
                  .stride = size(sizes.tp)};
  sketch.experts = sketch.dense;
  if (sizes.ep > 1) {
    sketch.experts = {.shards = size(sizes.dp() * sizes.cp * sizes.tp / sizes.ep),
                      .replicas = 1.0,
                      .stride = size(sizes.ep)};
  }
  return sketch;
}

LayoutSketch sketch_of(const config::Plan& plan, const model::ModelConfig& config,
                       const Layout& layout) {
  LayoutSketch sketch =
      sketch_stages(plan, config, layout.mesh.sizes(), local_cuts(config, layout));
  count_choices(config, layout, sketch);
  return sketch;
}

}  // namespace am::planner
