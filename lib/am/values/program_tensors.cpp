#include "am/values/program_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <set>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/run_folder/shard_index.h"
#include "am/tensor/dtype.h"
#include "am/values/parameter_view.h"

namespace am::values {

namespace {

// Returns the placements as a list of pairs: the axis, and the sharded dim or, for other
// placements, -1 (Replicate) or -2 (Partial).
Json placements_json(const std::vector<std::pair<std::string, mesh::Placement>>& placements) {
  Json list = Json::array();
  for (const auto& [axis, placement] : placements) {
    const int dim = placement.kind == mesh::Placement::Kind::kPartial ? -2 : -1;
    list.push_back({axis, placement.is_shard() ? placement.dim : dim});
  }
  return list;
}

std::vector<std::pair<std::string, mesh::Placement>> placements_in(const Json& json) {
  std::vector<std::pair<std::string, mesh::Placement>> placements;
  for (const Json& each : json) {
    const int dim = each[1].get<int>();
    const auto placement = dim >= 0    ? mesh::Placement::shard(dim)
                           : dim == -1 ? mesh::Placement::replicate()
                                       : mesh::Placement::partial();
    placements.emplace_back(each[0].get<std::string>(), placement);
  }
  return placements;
}

std::string description_of(const std::vector<ProgramTensor>& own) {
  Json list = Json::array();
  for (const ProgramTensor& each : own) {
    list.push_back({each.name, tensor::dtype_name(each.part.scalar_type()), each.shape, each.offset,
                    each.part.sizes().vec(), placements_json(each.placements)});
  }
  return dump_json(list, -1);
}

bool is_state(std::string_view name) {
  return starts_with(name, kGradientPrefix) || starts_with(name, run_folder::kOptimizerPrefix);
}

// Largest number of different parts of a tensor that require_cover() compares in pairs. If a tensor
// has more parts, the remaining pairs are not checked for overlaps.
constexpr size_t kMostCompared = 1024;

// Throws Error(kUsage) if the parts overlap or do not cover the tensor. Parts with equal boxes
// count once.
void require_cover(const inspect::HeldParameter& held) {
  std::set<std::pair<Shape, Shape>> boxes;
  std::vector<mesh::Box> different;
  const mesh::Box whole = mesh::Box::whole(held.shape);
  int64_t elements = 0;
  bool fits = true;
  for (const inspect::HeldShard& shard : held.shards) {
    if (shard.box.numel() == 0 || !boxes.emplace(shard.box.offset, shard.box.shape).second) {
      continue;
    }
    fits = fits && mesh::intersect(shard.box, whole) == shard.box;
    for (const mesh::Box& other : different) {
      if (different.size() > kMostCompared) break;
      const auto common = mesh::intersect(other, shard.box);
      fits = fits && (!common || common->numel() == 0);
    }
    elements += shard.box.numel();
    different.push_back(shard.box);
  }
  if (fits && elements == held.numel()) return;
  throw Error(ErrorKind::kUsage,
              cat(held.name, ": the ranks' different parts, with ", elements,
                  " elements, do not cover the shape ", shape_text(held.shape), " (", held.numel(),
                  " elements) exactly once"),
              "the parts of a tensor must be disjoint or equal, and cover it");
}

// Returns the sum of the squares of the values; NaN if their dtype has no norm. Never throws,
// because the other ranks would wait for this rank in the following all-reduce.
double squares_of(const at::Tensor& values) {
  try {
    const at::Tensor numbers = values.is_complex() ? at::view_as_real(values) : values;
    return at::linalg_vector_norm(numbers, 2, {}, false, at::kDouble).square().item<double>();
  } catch (const std::exception&) {
    return std::nan("");
  }
}

}  // namespace

void ProgramTensors::set(std::vector<ProgramTensor> own) {
  const std::string text = description_of(own);
  const uint64_t hash = std::hash<std::string>()(text);
  at::Tensor changed = at::full({1}, described_ == hash ? 0 : 1, at::TensorOptions(at::kLong));
  changed = changed.to(world_.group().device());
  world_.group().all_reduce(changed, runtime::ReduceOp::kMax);
  own_.clear();
  if (changed.item<int64_t>() > 0) {
    described_.reset();
    parameters_.clear();
    states_.clear();
    shards_.clear();
    read(world_.group().all_gather_text(text));
    find_replicas(own);
    described_ = hash;
  }
  for (size_t i = 0; i < own.size(); ++i) {
    mesh::Box box = own[i].box();
    own_[own[i].name].push_back({std::move(own[i].part), std::move(box), first_replica_[i]});
  }
}

// Sets parameters_ and states_ from the descriptions of all ranks.
void ProgramTensors::read(const std::vector<std::string>& descriptions) {
  struct Entry {
    inspect::HeldParameter held;
    std::vector<inspect::HeldShard> shards;
    int64_t first_rank = 0;
  };
  std::map<std::string, Entry> entries;
  for (size_t rank = 0; rank < descriptions.size(); ++rank) {
    for (const Json& each : Json::parse(descriptions[rank])) {
      const auto name = each[0].get<std::string>();
      const auto shape = each[2].get<Shape>();
      const auto [found, fresh] = entries.try_emplace(name);
      Entry& entry = found->second;
      if (fresh) {
        entry.held.name = name;
        entry.held.shape = shape;
        entry.held.dtype = formats::dtype_of_torch(each[1].get<std::string>());
        entry.held.placements = placements_in(each[5]);
        entry.first_rank = static_cast<int64_t>(rank);
      } else if (shape != entry.held.shape) {
        throw Error(
            ErrorKind::kUsage,
            cat(name, ": the shape is ", shape_text(entry.held.shape), " on rank ",
                entry.first_rank, " and ", shape_text(shape), " on rank ", rank),
            "a name must mean one tensor in the whole job: if ranks have different modules, add a "
            "prefix to the names of their tensors");
      }
      entry.shards.push_back(
          {static_cast<int64_t>(rank), {each[3].get<Shape>(), each[4].get<Shape>()}});
    }
  }
  std::vector<inspect::HeldParameter> parameters, states;
  for (auto& [name, entry] : entries) {
    entry.held.shards = shards_.emplace_back(std::move(entry.shards));
    require_cover(entry.held);
    (is_state(name) ? states : parameters).push_back(std::move(entry.held));
  }
  for (auto* list : {&parameters, &states}) {
    std::sort(list->begin(), list->end(),
              [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  }
  parameters_ = std::move(parameters);
  states_ = std::move(states);
}

// Sets first_replica_. A part is the first replica if no lower rank has an equal box.
void ProgramTensors::find_replicas(const std::vector<ProgramTensor>& own) {
  std::map<std::string_view, const inspect::HeldParameter*> held;
  for (const auto* list : {&parameters_, &states_}) {
    for (const inspect::HeldParameter& each : *list) held.emplace(each.name, &each);
  }
  first_replica_.clear();
  for (const ProgramTensor& each : own) {
    const mesh::Box box = each.box();
    const auto& shards = held.at(each.name)->shards;
    first_replica_.push_back(std::none_of(shards.begin(), shards.end(), [&](const auto& shard) {
      return shard.rank < world_.rank() && shard.box == box;
    }));
  }
}

double ProgramTensors::gradient_norm() const {
  const at::NoGradGuard no_grad;
  double squares = 0.0;
  bool any = false;
  for (const inspect::HeldParameter& each : states_) {
    if (!starts_with(each.name, kGradientPrefix)) continue;
    any = true;
    for (const Own& part : own(each.name)) {
      if (!part.first_replica) continue;
      squares += squares_of(part.values);
    }
  }
  if (!any) return std::nan("");
  at::Tensor sum = at::full({1}, squares, at::TensorOptions(at::kDouble));
  sum = sum.to(world_.group().device());
  world_.group().all_reduce(sum);
  return std::sqrt(sum.item<double>());
}

std::span<const ProgramTensors::Own> ProgramTensors::own(std::string_view name) const {
  const auto found = own_.find(name);
  if (found == own_.end()) return {};
  return found->second;
}

}  // namespace am::values
