#include "am/predict/memory/layout_summary.h"

#include <algorithm>
#include <optional>

#include "am/layout/stages.h"

namespace am::predict {
namespace {

double elements(const layout::Layout& layout, const layout::ParameterLayout& parameter) {
  return static_cast<double>(numel(parameter.tp_shape(layout.mesh, /*rank=*/0)));
}

// Whether to count a parameter. False for the experts of all ep ranks but the first: all ep ranks
// hold equally many elements.
bool is_counted(const layout::ParameterLayout& parameter) {
  return parameter.ep_owner.value_or(0) == 0;
}

LocalParameters sum_of(const layout::Layout& layout, const std::vector<int>& indices) {
  LocalParameters sum;
  for (const int index : indices) {
    const layout::ParameterLayout& parameter = layout.parameters[static_cast<size_t>(index)];
    if (!is_counted(parameter)) continue;
    const auto kind = layout.inventory.parameters[static_cast<size_t>(index)].module_kind;
    double& kept = kind == model::ModuleKind::kExpert ? sum.experts : sum.dense;
    kept += elements(layout, parameter);
  }
  return sum;
}

// Whether backward recomputes a layer, or a part of it. `in_stage`: the layer's index in its stage.
bool is_checkpointed(const config::Plan& plan, int layer, int64_t in_stage) {
  const auto mode = config::checkpointing_of(plan.strategy);
  if (mode == config::ActivationCheckpointing::kOff) return false;
  const auto* megatron = std::get_if<config::MegatronConfig>(&plan.strategy);
  const bool block = megatron != nullptr && mode == config::ActivationCheckpointing::kFull &&
                     megatron->recompute_method == "block";
  if (block) return in_stage < megatron->recompute_num_layers;
  return (layer + 1) % config::checkpointing_every(plan.strategy) == 0;
}

void count_choices(const model::ModelConfig& config, const layout::Layout& layout,
                   LayoutSummary& summary) {
  double all = 0.0;
  double trained = 0.0;
  double ignored = 0.0;
  double quantized = 0.0;
  std::optional<size_t> first;  // the first trained parameter, in forward order
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const layout::ParameterLayout& parameter = layout.parameters[i];
    const auto whole = static_cast<double>(numel(parameter.shape));
    all += whole;
    if (parameter.ignored) ignored += whole;
    if (parameter.quantized) quantized += whole;
    if (!parameter.trainable) continue;
    trained += whole;
    if (!first.has_value()) first = i;
  }
  summary.trained = trained / all;
  summary.ignored = ignored / all;
  summary.quantized = quantized / all;
  if (!first.has_value()) return;
  const model::ParameterSpec& spec = layout.inventory.parameters[*first];
  if (spec.is_before_layers()) return;
  // Backward runs only through the first layer with trained parameters and the layers after it.
  const auto layers = static_cast<double>(config.num_hidden_layers);
  summary.backward_layers = 1.0 - (spec.layer >= 0 ? spec.layer : layers) / layers;
}

}  // namespace

const model::Unit* layer_like(const layout::Layout& layout, int layer) {
  const std::vector<int>& kinds = layout.inventory.spec.kind_of_layer;
  const auto kind = [&](int of) { return kinds[static_cast<size_t>(of)]; };
  const auto found =
      std::find_if(layout.units.begin(), layout.units.end(), [&](const model::Unit& unit) {
        return unit.layer >= 0 && !unit.parameters.empty() && kind(unit.layer) == kind(layer);
      });
  return found == layout.units.end() ? nullptr : &*found;
}

std::vector<StageSummary> empty_stages(const std::vector<int64_t>& owners, size_t kinds) {
  const std::vector<double> none(kinds, 0.0);
  std::vector<StageSummary> stages;
  for (const int64_t owner : owners) {
    stages.push_back({.owner = owner, .layers = none, .checkpointed = none, .parameters = {}});
  }
  return stages;
}

int64_t LayoutSummary::positions() const {
  int64_t most = 0;
  for (const StageSummary& stage : stages) most = std::max(most, stage.owner);
  return most + 1;
}

LocalParameters LayoutSummary::parameters_of(int64_t position) const {
  LocalParameters sum;
  for (const StageSummary& stage : stages) {
    if (stage.owner == position) sum.add(stage.parameters);
  }
  return sum;
}

int64_t LayoutSummary::fullest_position() const {
  std::vector<double> totals(static_cast<size_t>(positions()), 0.0);
  for (const StageSummary& stage : stages) {
    totals[static_cast<size_t>(stage.owner)] += stage.parameters.total();
  }
  return std::max_element(totals.begin(), totals.end()) - totals.begin();
}

LocalCuts local_cuts(const model::ModelConfig& config, const layout::Layout& layout) {
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

LayoutSummary summarize_stages(const config::Plan& plan, const model::ModelConfig& config,
                               const mesh::MeshSizes& sizes, const LocalCuts& cuts) {
  LayoutSummary summary;
  summary.of_layer = cuts.of_layer;
  summary.table = cuts.table;
  const auto owners = pipeline::stage_owners(layout::pipeline_shape(plan.pipeline, sizes.pp));
  const size_t kinds = cuts.of_layer.size();
  summary.stages = empty_stages(owners, kinds);
  const std::vector<int> stage_of =
      layout::stage_of_layers(plan, config, static_cast<int64_t>(owners.size()));
  for (size_t kind = 0; kind < kinds; ++kind) {
    for (const int layer : cuts.kinds[kind].layers) {
      const int of = stage_of[static_cast<size_t>(layer)];
      const auto first = std::lower_bound(stage_of.begin(), stage_of.end(), of) - stage_of.begin();
      StageSummary& stage = summary.stages[static_cast<size_t>(of)];
      stage.layers[kind] += 1.0;
      if (is_checkpointed(plan, layer, layer - first)) stage.checkpointed[kind] += 1.0;
      stage.parameters.add(cuts.of_layer[kind]);
    }
  }
  summary.stages.front().parameters.add(cuts.first);
  summary.stages.back().parameters.add(cuts.last);
  if (cuts.tied && summary.stages.size() > 1) summary.stages.back().parameters.dense += cuts.table;

  const auto size = [](int64_t ranks) { return static_cast<double>(ranks); };
  summary.dense = {.shards = size(sizes.dp_shard * sizes.cp),
                   .replicas = size(sizes.dp_replicate),
                   .stride = size(sizes.tp)};
  summary.experts = summary.dense;
  if (std::holds_alternative<config::MegatronConfig>(plan.strategy)) {
    // With zero = 0, dp_replicate is the number of all dp ranks. An expert may have fewer copies.
    const int64_t each = sizes.ep * sizes.etp;
    const int64_t copies = sizes.dp() * sizes.cp * sizes.tp / each;
    const int64_t shards = std::max<int64_t>(1, copies / sizes.dp_replicate);
    summary.experts = {
        .shards = size(shards), .replicas = size(copies / shards), .stride = size(each)};
  } else if (sizes.ep > 1) {
    summary.experts = {.shards = size(sizes.dp() * sizes.cp * sizes.tp / sizes.ep),
                       .replicas = 1.0,
                       .stride = size(sizes.ep)};
  }
  return summary;
}

LayoutSummary summary_of(const config::Plan& plan, const model::ModelConfig& config,
                         const layout::Layout& layout) {
  LayoutSummary summary =
      summarize_stages(plan, config, layout.mesh.sizes(), local_cuts(config, layout));
  count_choices(config, layout, summary);
  return summary;
}

}  // namespace am::predict
