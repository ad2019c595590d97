#include "am/planner/layout.h"

#include <variant>

#include "am/planner/adapters.h"
#include "am/planner/parameter_choice.h"
#include "am/planner/stages.h"

namespace am::planner {
namespace {

// What is stored is what the optimizer updates. Megatron-FSDP cuts that at every level but 0; at 1
// and 2 the parameters that compute are whole from forward to the end of backward.
bool shards_parameters(const config::DistributedConfig& strategy) {
  if (std::holds_alternative<config::FSDP2Config>(strategy)) return true;
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&strategy);
  return megatron != nullptr && megatron->zero_dp_strategy >= 1;
}

std::vector<int> unit_of_parameters(const Layout& layout) {
  std::vector<int> unit_of(layout.inventory.parameters.size(), 0);
  for (size_t u = 0; u < layout.units.size(); ++u) {
    for (const int index : layout.units[u].parameters) {
      unit_of[static_cast<size_t>(index)] = static_cast<int>(u);
    }
  }
  return unit_of;
}

// The embedding is on the first stage; the final norm and the head are on the last.
int stage_of(const model::ParameterSpec& parameter, const std::vector<int>& stage_of_layer,
             int last) {
  if (parameter.layer >= 0) return stage_of_layer[static_cast<size_t>(parameter.layer)];
  return parameter.module_kind == model::ModuleKind::kEmbedding ? 0 : last;
}

// Experts [0, E/ep) are the first ep rank's, and so on.
void place_expert(const model::ParameterSpec& spec, const model::ModelConfig& config, int64_t ep,
                  ParameterLayout& parameter) {
  const auto expert = spec.expert();
  const int64_t experts = config.moe.has_value() ? config.moe->experts : 1;
  parameter.ep_cut = !expert.has_value();
  if (expert.has_value()) parameter.ep_owner = *expert / mesh::chunk_length(experts, ep);
  parameter.shard_group = "ep_shard";
  parameter.tp_dim.reset();
  parameter.grad_sum_over_tp = false;
}

void place_parameters(const config::Plan& plan, const model::ModelConfig& config, Layout& layout) {
  const mesh::MeshSizes& sizes = layout.mesh.sizes();
  const bool fsdp = shards_parameters(plan.strategy);
  const std::vector<int> unit_of = unit_of_parameters(layout);
  const auto stages = static_cast<int64_t>(layout.stage_owners.size());
  const std::vector<int> stage_of_layer =
      stage_of_layers(plan.pipeline, config.num_hidden_layers, stages);
  for (size_t i = 0; i < layout.inventory.parameters.size(); ++i) {
    const model::ParameterSpec& spec = layout.inventory.parameters[i];
    const model::TpParameter& tp = layout.tp.parameters[i];
    ParameterLayout parameter;
    parameter.name = spec.name;
    parameter.shape = spec.shape;
    if (sizes.tp > 1) {
      parameter.tp_dim = tp.shard_dim;
      parameter.grad_sum_over_tp = tp.grad_sum_over_tp;
    }
    if (sizes.ep > 1 && spec.module_kind == model::ModuleKind::kExpert) {
      place_expert(spec, config, sizes.ep, parameter);
    }
    parameter.fsdp = fsdp && layout.mesh.group_size(parameter.shard_group) > 1;
    // What balances the experts is set, not trained. Adapters are trained alone.
    parameter.trainable = plan.lora.rank > 0 ? spec.adapter != model::AdapterPart::kNone
                                             : spec.role != model::Role::kRouterCorrection;
    parameter.unit = unit_of[i];
    parameter.stage = stage_of(spec, stage_of_layer, static_cast<int>(stages) - 1);
    layout.parameters.push_back(std::move(parameter));
  }
}

}  // namespace

std::vector<mesh::Cut> ParameterLayout::cuts(const mesh::MeshLayout& mesh, int64_t rank) const {
  std::vector<mesh::Cut> cuts;
  if (tp_dim.has_value()) cuts.push_back({*tp_dim, mesh.group_size("tp"), mesh.index(rank, "tp")});
  if (ep_cut) cuts.push_back({0, mesh.group_size("ep"), mesh.index(rank, "ep")});
  if (fsdp) cuts.push_back({fsdp_dim, mesh.group_size(shard_group), mesh.index(rank, shard_group)});
  return cuts;
}

mesh::Box ParameterLayout::box(const mesh::MeshLayout& mesh, int64_t rank) const {
  return mesh::cut_box(shape, cuts(mesh, rank));
}

Shape ParameterLayout::tp_shape(const mesh::MeshLayout& mesh, int64_t rank) const {
  if (!tp_dim.has_value() && !ep_cut) return shape;
  const char* axis = ep_cut ? "ep" : "tp";
  const mesh::Cut cut{tp_dim.value_or(0), mesh.group_size(axis), mesh.index(rank, axis)};
  return mesh::cut_box(shape, {&cut, 1}).shape;
}

int64_t ParameterLayout::stored_numel(const mesh::MeshLayout& mesh, int64_t rank) const {
  Shape local = tp_shape(mesh, rank);
  if (fsdp) {
    int64_t& cut = local[static_cast<size_t>(fsdp_dim)];
    cut = mesh::chunk_length(cut, mesh.group_size(shard_group));
  }
  return numel(local);
}

std::vector<std::pair<std::string, mesh::Placement>> ParameterLayout::placements(
    const mesh::MeshLayout& mesh) const {
  std::vector<std::pair<std::string, mesh::Placement>> placements;
  const auto add = [&](std::string_view group, const mesh::Placement& placement) {
    if (mesh.group_size(group) > 1) placements.emplace_back(group, placement);
  };
  const mesh::Placement sharded =
      fsdp ? mesh::Placement::shard(fsdp_dim) : mesh::Placement::replicate();
  if (expert_parallel()) {
    add(shard_group, sharded);
    if (ep_cut) add("ep", mesh::Placement::shard(0));
    return placements;
  }
  add("dp_replicate", mesh::Placement::replicate());
  add(shard_group, sharded);
  add("tp", tp_dim.has_value() ? mesh::Placement::shard(*tp_dim) : mesh::Placement::replicate());
  return placements;
}

bool Layout::holds(int64_t rank, const ParameterLayout& parameter) const {
  return stage_owners[static_cast<size_t>(parameter.stage)] == mesh.index(rank, "pp") &&
         (!parameter.ep_owner.has_value() || *parameter.ep_owner == mesh.index(rank, "ep"));
}

// ep ranks are the innermost of a stage.
int64_t Layout::first_holder(const ParameterLayout& parameter) const {
  const int64_t pp = stage_owners[static_cast<size_t>(parameter.stage)];
  return mesh.rank({pp, 0, 0, 0, 0}) + parameter.ep_owner.value_or(0);
}

std::vector<int> Layout::gathered(const model::Unit& unit) const {
  std::vector<int> indices = unit.parameters;
  std::erase_if(indices, [this](int i) { return parameters[static_cast<size_t>(i)].ignored; });
  return indices;
}

std::vector<int> Layout::ignored_of(const model::Unit& unit) const {
  std::vector<int> indices = unit.parameters;
  std::erase_if(indices, [this](int i) { return !parameters[static_cast<size_t>(i)].ignored; });
  return indices;
}

std::vector<int> Layout::ignored() const {
  std::vector<int> indices;
  for (const model::Unit& unit : units) {
    for (const int index : ignored_of(unit)) indices.push_back(index);
  }
  return indices;
}

namespace {

using MakeInventory = model::Inventory (*)(model::DecoderSpec);

std::optional<Layout> place(const config::Plan& plan, const model::ModelConfig& config,
                            const mesh::MeshSizes& sizes, MakeInventory make, Diagnostics& found) {
  const int before = found.errors();
  model::Inventory inventory = make(planned_spec(plan, config, found));
  auto tp_plan = select_tp_plan(plan, config, found);
  if (!tp_plan.has_value()) return std::nullopt;
  Layout layout{.mesh = mesh::MeshLayout(sizes),
                .inventory = std::move(inventory),
                .parameters = {},
                .units = {},
                .tp_plan = std::move(*tp_plan),
                .tp = {},
                .stage_owners = pipeline::stage_owners(plan.pipeline.schedule, sizes.pp,
                                                       plan.pipeline.virtual_stages),
                .in_flight = {}};
  layout.units = model::shard_units(layout.inventory);
  layout.tp = model::resolve_tp_plan(layout.tp_plan, layout.inventory,
                                     plan.span("strategy.tp_plan"), found);
  if (found.errors() > before) return std::nullopt;
  place_parameters(plan, config, layout);
  choose_parameters(plan, layout, found);
  if (found.errors() > before) return std::nullopt;
  return layout;
}

}  // namespace

std::optional<Layout> build_layout(const config::Plan& plan, const model::ModelConfig& config,
                                   const mesh::MeshSizes& sizes, Diagnostics& found) {
  // More stages than any schedule can have: the rules say so ("pp.schedule").
  if (sizes.pp > pipeline::kLargestSchedule / plan.pipeline.virtual_stages) return std::nullopt;
  auto layout = place(plan, config, sizes, model::build_inventory, found);
  if (!layout.has_value()) return std::nullopt;
  layout->in_flight = micro_batches_in_flight(pipeline_shape(plan.pipeline, sizes.pp));
  return layout;
}

std::optional<Layout> build_sample_layout(const config::Plan& plan,
                                          const model::ModelConfig& config,
                                          const mesh::MeshSizes& sizes, Diagnostics& found) {
  return place(plan, config, sizes, model::sample_inventory, found);
}

}  // namespace am::planner
