// Part of ShardedView: gathers parameters for the command `unshard`, and lists the boxes that each
// rank can read without communication.
#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/values/sharded_view.h"

namespace am::values {

std::vector<HeldShard> ShardedView::usable_boxes(const HeldParameter& parameter) {
  if (state_of_.contains(parameter.name)) {
    return {parameter.shards.begin(), parameter.shards.end()};
  }
  if (whole_.contains(parameter.name)) {
    std::vector<HeldShard> boxes;
    for (const int64_t rank : ranks_with(parameter)) {
      boxes.push_back({rank, mesh::Box::whole(parameter.shape)});
    }
    return boxes;
  }
  const bool gathered = by_units_
                            ? unsharded_.contains(set_of_.at(parameter.name))
                            : model_->groups()[places_.at(parameter.name).group]->is_unsharded();
  if (gathered) return gathered_boxes(parameter);
  return {parameter.shards.begin(), parameter.shards.end()};
}

// Returns the boxes of the parameter that each rank holds while the parameter is gathered over
// dp_shard_cp.
std::vector<HeldShard> ShardedView::gathered_boxes(const HeldParameter& parameter) const {
  const layout::ParameterLayout& layout = *layouts_.at(parameter.name);
  std::vector<HeldShard> boxes;
  for (int64_t rank = 0; rank < mesh().world_size(); ++rank) {
    if (!model_->layout().holds(rank, layout)) continue;
    for (mesh::Box& box : layout.tp_boxes(mesh(), rank)) boxes.push_back({rank, std::move(box)});
  }
  return boxes;
}

std::vector<int64_t> ShardedView::ranks_with(const HeldParameter& parameter) const {
  const layout::ParameterLayout& layout = *layouts_.at(parameter.name);
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < mesh().world_size(); ++rank) {
    if (model_->layout().holds(rank, layout)) ranks.push_back(rank);
  }
  return ranks;
}

// Returns whether tp or ep shards the parameter. A rank then holds only a part of the parameter,
// even while the parameter is gathered over dp_shard_cp.
bool ShardedView::is_cut(const HeldParameter& parameter) const {
  const std::vector<HeldShard> boxes = gathered_boxes(parameter);
  return std::any_of(boxes.begin(), boxes.end(),
                     [&](const HeldShard& each) { return each.box.numel() < parameter.numel(); });
}

// Returns the indices of the sets that contain the parameters. A set contains parameters that are
// gathered together. The indices are in ascending order, so that all ranks gather the sets in the
// same order.
std::vector<size_t> ShardedView::sets_of(std::span<const HeldParameter* const> parameters) const {
  std::set<size_t> sets;
  for (const HeldParameter* parameter : parameters) {
    if (state_of_.contains(parameter->name)) {
      throw Error(ErrorKind::kUsage, cat(parameter->name, ": only parameters can be unsharded"),
                  "`print` shows its values without `unshard`");
    }
    // Parameters that FSDP ignores are not sharded, so there is nothing to gather.
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
  const at::NoGradGuard no_grad;
  std::vector<size_t> fresh;
  std::vector<std::string> copied;
  try {
    for (const size_t set : sets) {
      if (between) between();
      for (parallel::ParamGroup* group : groups_[set]) group->unshard();
      if (unsharded_.insert(set).second) fresh.push_back(set);
    }
    for (const HeldParameter* parameter : parameters) {
      if (whole_.contains(parameter->name) || !is_cut(*parameter)) continue;
      if (between) between();
      at::Tensor full = model_->full_parameter(parameter->name);
      const auto ranks = ranks_with(*parameter);
      const bool here = std::find(ranks.begin(), ranks.end(), rank()) != ranks.end();
      whole_[parameter->name] = here ? std::move(full) : at::Tensor();
      copied.push_back(parameter->name);
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage) {  // interrupt: all ranks throw at the same point
      for (const std::string& name : copied) whole_.erase(name);
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
                          (layouts_.at(parameter.name)->quantized ||
                           mesh().group_size(layouts_.at(parameter.name)->shard_group) > 1);
    if (!gathered || unsharded_.contains(set)) continue;
    for (const HeldShard& whole : gathered_boxes(parameter)) {
      bytes += whole.box.numel() * formats::dtype_size(parameter.dtype);
    }
  }
  for (const HeldParameter* parameter : parameters) {
    if (whole_.contains(parameter->name) || !is_cut(*parameter)) continue;
    bytes += static_cast<int64_t>(ranks_with(*parameter).size()) * parameter->bytes();
  }
  return bytes;
}

std::vector<std::string> ShardedView::reshard(std::span<const HeldParameter* const> parameters) {
  for (const HeldParameter* parameter : parameters) whole_.erase(parameter->name);
  std::vector<size_t> freed;
  for (const size_t set : sets_of(parameters)) {
    if (unsharded_.erase(set) > 0) freed.push_back(set);
    for (parallel::ParamGroup* group : groups_[set]) group->reshard();
  }
  return names_in(freed);
}

std::string ShardedView::unshard_note() const {
  const std::string tp = mesh().sizes().tp > 1
                             ? "; the named parameters that are sharded over tp are gathered over "
                               "tp too"
                             : "";
  const bool apart = mesh().sizes().ep > 1;
  if (mesh().group_size("dp_shard_cp") == 1 && (!apart || mesh().group_size("ep_shard") == 1)) {
    const bool quantized =
        std::any_of(parameters_.begin(), parameters_.end(),
                    [&](const auto& each) { return layouts_.at(each.name)->quantized; });
    return cat("dp_shard is 1: there is nothing to gather, ",
               quantized ? "quantized parameters are dequantized"
                         : "each rank computes with what it stores",
               tp);
  }
  return cat("parameters are gathered over dp_shard_cp",
             apart ? ", each rank's experts over ep_shard" : "",
             ", with all other parameters of their FSDP unit", tp);
}

// Gathers the sets of parameters that the user unsharded, and frees all others. This is necessary
// because a forward pass leaves FSDP units gathered or freed as training requires.
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

}  // namespace am::values
