#include "am/values/sharded_view.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/inspect/facts.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"

namespace am::values {

namespace {

// What FSDP ignores is in no set that can be asked for.
constexpr size_t kIgnored = std::numeric_limits<size_t>::max();

}  // namespace

ShardedView::ShardedView(const planner::Job& job, const runtime::World& world)
    : plan_(job.plan),
      mesh_(world, job.layout.mesh),
      own_(parallel::ParallelModel::build(job.plan, job.model, job.layout, mesh_)),
      model_(own_.get()) {
  weights_ = checkpoint::load_or_initialize(*model_, plan_);
  fresh_ = starts_with(weights_, "initialised");
  add_parameters();
}

ShardedView::ShardedView(const config::Plan& plan, parallel::ParallelModel& model, LiveJob job)
    : plan_(plan), mesh_(model.mesh()), model_(&model), live_(std::move(job)) {
  weights_ = "of the job";
  add_parameters();
}

void ShardedView::add_parameters() {
  const planner::Layout& layout = model_->layout();
  const formats::Dtype dtype = formats::dtype_of_torch(plan_.model.dtype);
  for (const planner::ParameterLayout& from : layout.parameters) {
    layouts_[from.name] = &from;
    HeldParameter parameter;
    parameter.name = from.name;
    parameter.shape = from.shape;
    parameter.dtype = dtype;
    parameter.placements = from.placements(layout.mesh);
    std::vector<HeldShard>& shards = shards_.emplace_back();
    for (int64_t rank = 0; rank < layout.mesh.world_size(); ++rank) {
      if (!layout.holds(rank, from)) continue;
      for (const planner::OwnPart& part : from.parts(layout.mesh, rank)) {
        shards.push_back({rank, part.box});
      }
    }
    parameter.shards = shards;
    parameters_.push_back(std::move(parameter));
  }
  std::sort(parameters_.begin(), parameters_.end(),
            [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  add_groups();
}

// Where all ranks have all parameters, a group's number is that of its set; where ranks have other
// stages or experts than others, a unit's number is.
void ShardedView::add_groups() {
  by_units_ = model_->pipeline() != nullptr || mesh().sizes().ep > 1;
  const auto& groups = model_->groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t k = 0; k < groups[g]->owned().size(); ++k) {
      const std::string& name = groups[g]->owned()[k].name;
      places_.emplace(name, Place{groups[g], k});
      if (!by_units_) set_of_.emplace(name, g);
    }
  }
  if (by_units_) {
    for (const auto& [name, layout] : layouts_) set_of_[name] = static_cast<size_t>(layout->unit);
  }
  for (parallel::ParamGroup* group : groups) {
    if (group->owned().empty()) continue;
    const std::string& name = group->owned().front().name;
    groups_[layouts_.at(name)->ignored ? kIgnored : set_of_.at(name)].push_back(group);
  }
}

std::string ShardedView::title() const {
  return make_title(
      model_->config().model_type,
      live_ ? cat("step ", live_->steps()) : std::filesystem::path(plan_.file).filename().string(),
      mesh());
}

Json ShardedView::info() {
  Json json = {{"target", live_ ? live_->run : plan_.file}, {"kind", live_ ? "job" : "plan"}};
  if (live_) json["step"] = live_->steps();
  json["model_type"] = model_->config().model_type;
  add_totals(parameters_, json);
  json["weights"] = weights_;
  json["strategy"] = config::strategy_name(plan_.strategy);
  add_mesh(mesh(), json);
  json["tokenizer"] = name_or_null(default_tokenizer());
  return json;
}

at::Tensor ShardedView::read(const HeldParameter& parameter, const mesh::Box& box) {
  const at::NoGradGuard no_grad;
  const at::Tensor full = model_->full_parameter(parameter.name);
  return tensor::view_box(full, Shape(parameter.shape.size(), 0), box).cpu();
}

void ShardedView::visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                              const PartVisit& visit) {
  const auto place = places_.find(parameter.name);
  if (place == places_.end()) return;
  const auto& all = place->second.group->owned();
  for (size_t i = place->second.index; i < all.size() && all[i].name == parameter.name; ++i) {
    const auto common = mesh::intersect(all[i].box, box);
    if (!common) continue;
    const at::Tensor values = tensor::view_box(all[i].value, all[i].box.offset, *common);
    if (!visit({values, *common, all[i].first_replica})) return;
  }
}

at::Tensor ShardedView::gather(const at::Tensor& row) {
  const runtime::Group& world = mesh_.group("world");
  at::Tensor all = at::empty({world.size(), row.numel()}, row.options().device(world.device()));
  world.all_gather(all, row.to(world.device()).contiguous());
  return all.cpu();
}

std::vector<HeldBytes> ShardedView::held_bytes() {
  at::Tensor row = at::zeros({2}, at::TensorOptions(at::kLong));
  for (const auto& group : model_->groups()) {
    row[0] += static_cast<int64_t>(group->flat().nbytes());
    row[1] += group->unsharded_bytes();
  }
  const at::Tensor all = gather(row);
  const auto values = all.accessor<int64_t, 2>();
  std::vector<HeldBytes> ranks;
  for (int64_t rank = 0; rank < all.size(0); ++rank) {
    ranks.push_back({rank, values[rank][0], values[rank][1]});
  }
  return ranks;
}

std::vector<HeldShard> ShardedView::usable_boxes(const HeldParameter& parameter) {
  const bool whole = by_units_ ? unsharded_.contains(set_of_.at(parameter.name))
                               : places_.at(parameter.name).group->is_unsharded();
  if (whole) return gathered_boxes(parameter);
  return {parameter.shards.begin(), parameter.shards.end()};
}

// What each rank holds while the parameter is gathered.
std::vector<HeldShard> ShardedView::gathered_boxes(const HeldParameter& parameter) const {
  const planner::ParameterLayout& layout = *layouts_.at(parameter.name);
  std::vector<HeldShard> boxes;
  for (int64_t rank = 0; rank < mesh().world_size(); ++rank) {
    if (!model_->layout().holds(rank, layout)) continue;
    for (mesh::Box& box : layout.tp_boxes(mesh(), rank)) boxes.push_back({rank, std::move(box)});
  }
  return boxes;
}

// Rising, so that every rank gathers in the same order.
std::vector<size_t> ShardedView::sets_of(std::span<const HeldParameter* const> parameters) const {
  std::set<size_t> sets;
  for (const HeldParameter* parameter : parameters) {
    // What FSDP ignores is whole as it is.
    if (!layouts_.at(parameter->name)->ignored) sets.insert(set_of_.at(parameter->name));
  }
  return {sets.begin(), sets.end()};
}

std::vector<std::string> ShardedView::names_in(const std::vector<size_t>& sets) const {
  std::vector<std::string> names;
  for (const HeldParameter& parameter : parameters_) {
    if (std::find(sets.begin(), sets.end(), set_of_.at(parameter.name)) != sets.end()) {
      names.push_back(parameter.name);
    }
  }
  return names;
}

std::vector<std::string> ShardedView::unshard(std::span<const HeldParameter* const> parameters,
                                              const Between& between) {
  const std::vector<size_t> sets = sets_of(parameters);
  std::vector<size_t> fresh;
  try {
    for (const size_t set : sets) {
      if (between) between();
      for (parallel::ParamGroup* group : groups_[set]) group->unshard();
      if (unsharded_.insert(set).second) fresh.push_back(set);
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage) {  // all ranks are here; after others the session ends
      for (const size_t set : fresh) {
        unsharded_.erase(set);
        for (parallel::ParamGroup* group : groups_[set]) group->reshard();
      }
    }
    throw;
  }
  return names_in(sets);
}

int64_t ShardedView::unshard_bytes(std::span<const HeldParameter* const> parameters) const {
  const std::vector<size_t> sets = sets_of(parameters);
  int64_t bytes = 0;
  for (const HeldParameter& parameter : parameters_) {
    const size_t set = set_of_.at(parameter.name);
    const bool gathered = std::find(sets.begin(), sets.end(), set) != sets.end() &&
                          mesh().group_size(layouts_.at(parameter.name)->shard_group) > 1;
    if (!gathered || unsharded_.contains(set)) continue;
    for (const HeldShard& whole : gathered_boxes(parameter)) {
      bytes += whole.box.numel() * formats::dtype_size(parameter.dtype);
    }
  }
  return bytes;
}

std::vector<std::string> ShardedView::reshard(std::span<const HeldParameter* const> parameters) {
  std::vector<size_t> freed;
  for (const size_t set : sets_of(parameters)) {
    if (unsharded_.erase(set) > 0) freed.push_back(set);
    for (parallel::ParamGroup* group : groups_[set]) group->reshard();
  }
  return names_in(freed);
}

std::string ShardedView::unshard_note() const {
  const std::string tp = mesh().sizes().tp > 1 ? "; what tp cuts stays cut" : "";
  const bool apart = mesh().sizes().ep > 1;
  if (mesh().group_size("dp_shard_cp") == 1 && (!apart || mesh().group_size("ep_shard") == 1)) {
    return cat("dp_shard is 1: there is nothing to gather, each rank computes with what it stores",
               tp);
  }
  return cat("parameters are gathered over dp_shard_cp",
             apart ? ", each rank's experts over ep_shard" : "",
             ", with all others of their FSDP unit", tp);
}

// A forward pass leaves units gathered, or frees them, by the rules of training.
void ShardedView::after_forward() {
  for (const auto& [set, groups] : groups_) {
    for (parallel::ParamGroup* group : groups) {
      if (unsharded_.contains(set)) {
        group->unshard();
      } else {
        group->reshard();
      }
    }
  }
}

void ShardedView::set_compute_dtype(at::ScalarType) {
  throw Error(
      ErrorKind::kUsage, "the plan says in which dtype its model computes",
      "start am-repl with --set model.dtype=... or --set strategy.mp_policy.param_dtype=...");
}

DefaultTokenizer ShardedView::default_tokenizer() const {
  return tokenizer_of(plan_, model_->config().vocab_size);
}

std::string ShardedView::note() const {
  if (!fresh_) return {};
  return cat(std::filesystem::path(plan_.file).filename().string(), ": its weights are ", weights_,
             ": nothing has trained them");
}

// Sequence parallelism cuts a text's tokens into equal pieces.
int64_t ShardedView::length_multiple() const {
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan_.strategy);
  return fsdp2 != nullptr && fsdp2->sequence_parallel ? mesh().sizes().tp : 1;
}

void ShardedView::export_hf(const std::filesystem::path& folder,
                            std::optional<at::ScalarType> dtype, const Between& between) {
  checkpoint::export_hf(folder, *model_, dtype, checkpoint::kExportFileBytes, between);
}

}  // namespace am::values
