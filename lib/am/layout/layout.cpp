#include "am/layout/layout.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/layout/adapters.h"
#include "am/layout/parameter_choice.h"
#include "am/layout/replicas.h"
#include "am/layout/stages.h"
#include "am/model/gradient_sum.h"

namespace am::layout {
namespace {

std::vector<int> unit_of_parameters(const Layout& layout) {
  std::vector<int> unit_of(layout.inventory.parameters.size(), 0);
  for (size_t u = 0; u < layout.units.size(); ++u) {
    for (const int index : layout.units[u].parameters) {
      unit_of[static_cast<size_t>(index)] = static_cast<int>(u);
    }
  }
  return unit_of;
}

// Returns the stage of a parameter. The embedding with its norm is on the first stage; the final
// norm and the head are on the last.
int stage_of(const model::ParameterSpec& parameter, const std::vector<int>& stage_of_layer,
             int last) {
  if (parameter.layer >= 0) return stage_of_layer[static_cast<size_t>(parameter.layer)];
  return parameter.is_before_layers() ? 0 : last;
}

// Returns the slices of the dim that tp shards, or an empty list if the dim is one slice without
// copies.
std::vector<mesh::DimSlice> dim_slices(const model::TpParameter& tp, int64_t ranks) {
  std::vector<mesh::DimSlice> slices;
  for (const model::TpSlice& slice : tp.slices) {
    slices.push_back({{slice.offset, slice.length}, model::ranks_of_a_head(ranks, slice.heads)});
  }
  if (slices.size() == 1 && slices.front().copies == 1) slices.clear();
  return slices;
}

// Returns the dim of a routed expert's parameter that has the expert's intermediate size. Returns
// nothing for the bias of the down projection, which has only the hidden size, and for a matrix
// whose dim 0 joins the rows of all experts (ModuleSpec::joined).
std::optional<int> width_dim(const model::Inventory& inventory, const model::ParameterSpec& spec) {
  const std::vector<model::ModuleSpec>& modules = inventory.spec.layer(spec.layer).modules;
  const auto module =
      std::find_if(modules.begin(), modules.end(),
                   [&](const model::ModuleSpec& one) { return one.role == spec.role; });
  AM_ASSERT(module != modules.end(), cat(spec.name, " has no module"));
  const int first = module->stacked ? 1 : 0;
  const bool of_output = spec.role != model::Role::kExpertDown;
  if (module->joined) return std::nullopt;
  if (spec.bias) return of_output ? std::optional(first) : std::nullopt;
  return first + (of_output == module->in_out ? 1 : 0);
}

// Distributes a parameter of routed experts over the grid (ep_shard, ep, etp). With E experts, the
// first ceil(E / ep) experts belong to ep rank 0, the next to ep rank 1, and so on. A tensor that
// stacks all experts is sharded on dim 0. If etp > 1, etp cuts every expert along its intermediate
// size.
void place_expert(const model::ParameterSpec& spec, const model::ModelConfig& config,
                  const mesh::MeshSizes& sizes, const model::Inventory& inventory,
                  ParameterLayout& parameter) {
  const auto expert = spec.expert();
  const int64_t experts = config.moe.has_value() ? config.moe->experts : 1;
  parameter.ep_cut = !expert.has_value();
  if (expert.has_value()) parameter.ep_owner = *expert / mesh::chunk_length(experts, sizes.ep);
  parameter.shard_group = "ep_shard";
  parameter.tp_group = "etp";
  parameter.tp_dim.reset();
  parameter.tp_slices.clear();
  parameter.grad_sum_over_tp = false;
  if (sizes.etp > 1) parameter.tp_dim = width_dim(inventory, spec);
}

// Whether routed experts are distributed over the grid (ep_shard, ep, etp) instead of like all
// other parameters. The strategy megatron uses the grid even with ep = 1, if tp or etp is greater
// than 1.
bool has_expert_groups(const config::Plan& plan, const mesh::MeshSizes& sizes) {
  const bool megatron = std::holds_alternative<config::MegatronConfig>(plan.strategy);
  return sizes.ep > 1 || (megatron && (sizes.tp > 1 || sizes.etp > 1));
}

void place_parameters(const config::Plan& plan, const model::ModelConfig& config, Layout& layout) {
  const mesh::MeshSizes& sizes = layout.mesh.sizes();
  const bool fsdp = shards_parameters(plan.strategy);
  const bool expert_groups = has_expert_groups(plan, sizes);
  const std::vector<int> unit_of = unit_of_parameters(layout);
  const auto stages = static_cast<int64_t>(layout.stage_owners.size());
  const std::vector<int> stage_of_layer = stage_of_layers(plan, config, stages);
  for (size_t i = 0; i < layout.inventory.parameters.size(); ++i) {
    const model::ParameterSpec& spec = layout.inventory.parameters[i];
    const model::TpParameter& tp = layout.tp.parameters[i];
    ParameterLayout parameter;
    parameter.name = spec.name;
    parameter.shape = spec.shape;
    if (sizes.tp > 1) {
      parameter.tp_dim = tp.shard_dim;
      parameter.tp_slices = dim_slices(tp, sizes.tp);
      parameter.grad_sum_over_tp = tp.grad_sum_over_tp;
    }
    if (expert_groups && spec.module_kind == model::ModuleKind::kExpert) {
      place_expert(spec, config, sizes, layout.inventory, parameter);
    }
    parameter.fsdp = fsdp && layout.mesh.group_size(parameter.shard_group) > 1;
    // Load balancing sets the router's correction biases, which are not trained. Under LoRA, only
    // adapters and lora.modules_to_save are trained.
    parameter.trainable = spec.role != model::Role::kRouterCorrection;
    if (plan.lora.rank > 0 && spec.adapter == model::AdapterPart::kNone) {
      parameter.trainable =
          parameter.trainable && model::is_saved(plan.lora.modules_to_save, spec.module());
    }
    parameter.unit = unit_of[i];
    const int last_stage = static_cast<int>(stages) - 1;
    parameter.stage = stage_of(spec, stage_of_layer, last_stage);
    const bool tied = layout.inventory.tied_lm_head && spec.role == model::Role::kEmbedding;
    if (tied && last_stage > 0) parameter.tied_stage = last_stage;
    layout.parameters.push_back(std::move(parameter));
  }
}

std::optional<mesh::Cut> fsdp_cut(const ParameterLayout& parameter, const mesh::MeshLayout& mesh,
                                  int64_t rank) {
  if (!parameter.fsdp) return std::nullopt;
  return mesh::Cut{parameter.fsdp_dim, mesh.group_size(parameter.shard_group),
                   mesh.index(rank, parameter.shard_group)};
}

}  // namespace

std::vector<mesh::Extent> ParameterLayout::tp_extents(const mesh::MeshLayout& mesh,
                                                      int64_t rank) const {
  if (!tp_dim.has_value()) return {};
  const int64_t ranks = mesh.group_size(tp_group);
  const int64_t index = mesh.index(rank, tp_group);
  std::vector<mesh::Extent> extents;
  for (const mesh::DimSlice& slice : tp_slices) {
    extents.push_back(mesh::piece_of(slice, ranks, index));
  }
  if (tp_slices.empty()) {
    extents.push_back(mesh::chunk(shape[static_cast<size_t>(*tp_dim)], ranks, index));
  }
  return extents;
}

std::vector<mesh::Box> ParameterLayout::tp_boxes(const mesh::MeshLayout& mesh, int64_t rank) const {
  mesh::Box whole = mesh::Box::whole(shape);
  if (ep_cut) {
    const mesh::Cut cut{0, mesh.group_size("ep"), mesh.index(rank, "ep")};
    whole = mesh::cut_box(shape, {&cut, 1});
  }
  if (!tp_dim.has_value()) return {whole};
  const auto dim = static_cast<size_t>(*tp_dim);
  std::vector<mesh::Box> boxes;
  for (const mesh::Extent& extent : tp_extents(mesh, rank)) {
    boxes.push_back(whole);
    boxes.back().offset[dim] = extent.offset;
    boxes.back().shape[dim] = extent.size;
  }
  return boxes;
}

Shape ParameterLayout::tp_shape(const mesh::MeshLayout& mesh, int64_t rank) const {
  const std::vector<mesh::Box> boxes = tp_boxes(mesh, rank);
  Shape local = boxes.front().shape;
  for (size_t i = 1; i < boxes.size(); ++i) {
    const auto dim = static_cast<size_t>(*tp_dim);
    local[dim] += boxes[i].shape[dim];
  }
  return local;
}

Shape ParameterLayout::own_shape(const mesh::MeshLayout& mesh, int64_t rank) const {
  const auto cut = fsdp_cut(*this, mesh, rank);
  const Shape local = tp_shape(mesh, rank);
  return cut.has_value() ? mesh::cut_box(local, {&*cut, 1}).shape : local;
}

std::vector<LocalShard> ParameterLayout::parts(const mesh::MeshLayout& mesh, int64_t rank) const {
  const auto cut = fsdp_cut(*this, mesh, rank);
  const Shape local = tp_shape(mesh, rank);
  const mesh::Box own =
      cut.has_value() ? mesh::cut_box(local, {&*cut, 1}) : mesh::Box::whole(local);
  const int64_t tp_rank = mesh.index(rank, tp_group);
  std::vector<LocalShard> parts;
  int64_t start = 0;  // start of the box along tp_dim, in the local tensor after tp
  const std::vector<mesh::Box> boxes = tp_boxes(mesh, rank);
  for (size_t i = 0; i < boxes.size(); ++i) {
    LocalShard part;
    part.copies = tp_dim.has_value() || expert_parallel() ? 1 : mesh.group_size("tp");
    if (i < tp_slices.size()) part.copies = tp_slices[i].copies;
    part.copy = tp_rank % part.copies;
    mesh::Box place{Shape(local.size(), 0), boxes[i].shape};
    if (tp_dim.has_value()) place.offset[static_cast<size_t>(*tp_dim)] = start;
    const auto common = mesh::intersect(own, place);
    if (common.has_value() || boxes.size() == 1) {
      part.box = common.value_or(own);
      for (size_t dim = 0; dim < local.size(); ++dim) {
        part.box.offset[dim] += boxes[i].offset[dim] - place.offset[dim];
      }
      parts.push_back(std::move(part));
    }
    if (tp_dim.has_value()) start += boxes[i].shape[static_cast<size_t>(*tp_dim)];
  }
  if (parts.empty()) parts.push_back({own, 1, 0});
  return parts;
}

mesh::Box ParameterLayout::box(const mesh::MeshLayout& mesh, int64_t rank) const {
  const std::vector<LocalShard> own = parts(mesh, rank);
  AM_ASSERT(own.size() == 1, cat(name, " has several boxes on rank ", rank));
  return own.front().box;
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
    if (tp_dim.has_value()) add(tp_group, mesh::Placement::shard(*tp_dim));
    return placements;
  }
  add("dp_replicate", mesh::Placement::replicate());
  add(shard_group, sharded);
  add("tp", tp_dim.has_value() ? mesh::Placement::shard(*tp_dim) : mesh::Placement::replicate());
  return placements;
}

int64_t Layout::copies_at(int64_t pp, int64_t ep, const ParameterLayout& parameter) const {
  if (parameter.ep_owner.has_value() && *parameter.ep_owner != ep) return 0;
  const auto owns = [&](int stage) { return stage_owners[static_cast<size_t>(stage)] == pp; };
  return (owns(parameter.stage) ? 1 : 0) +
         (parameter.tied_stage && owns(*parameter.tied_stage) ? 1 : 0);
}

// The ranks of a stage form a grid (ep_shard, ep, etp). The first rank with index i along ep
// therefore has the number of the stage's first rank plus i * etp.
int64_t Layout::first_holder(const ParameterLayout& parameter) const {
  const int64_t pp = stage_owners[static_cast<size_t>(parameter.stage)];
  return mesh.rank({pp, 0, 0, 0, 0}) + parameter.ep_owner.value_or(0) * mesh.sizes().etp;
}

Layout::ByRanks Layout::by_ranks(const std::vector<int>& indices, int64_t rank) const {
  const int64_t ep = mesh.index(rank, "ep");
  ByRanks sorted;
  for (const int index : indices) {
    const ParameterLayout& parameter = parameters[static_cast<size_t>(index)];
    if (!parameter.expert_parallel()) {
      sorted.dense.push_back(index);
    } else if (parameter.ep_owner.value_or(ep) == ep) {
      sorted.experts.push_back(index);
    }
  }
  return sorted;
}

std::vector<int> Layout::stored_as(const std::vector<int>& indices, bool quantized) const {
  std::vector<int> found = indices;
  std::erase_if(found,
                [&](int i) { return parameters[static_cast<size_t>(i)].quantized != quantized; });
  return found;
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
                .stage_owners = pipeline::stage_owners(pipeline_shape(plan.pipeline, sizes.pp))};
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
  // Returns nothing if pp is too large for any schedule; rule "pp.schedule" reports the error.
  if (sizes.pp > pipeline::kLargestSchedule / plan.pipeline.virtual_stages) return std::nullopt;
  return place(plan, config, sizes, model::build_inventory, found);
}

std::optional<Layout> build_sample_layout(const config::Plan& plan,
                                          const model::ModelConfig& config,
                                          const mesh::MeshSizes& sizes, Diagnostics& found) {
  return place(plan, config, sizes, model::sample_inventory, found);
}

}  // namespace am::layout
