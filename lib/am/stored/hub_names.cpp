#include "am/stored/hub_names.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "am/base/text.h"

namespace am::stored {

namespace {

using model::Role;

// In one of the two tensors that have all experts of a layer, [E, 2F, D] and [E, D, F]; nothing for
// what is no expert's own matrix.
std::optional<Place> stacked(const model::ParameterSpec& parameter,
                             const model::Inventory& inventory) {
  const auto expert = parameter.expert();
  if (!expert.has_value() || parameter.bias) return std::nullopt;
  const int64_t experts = inventory.spec.layer(parameter.layer).find(parameter.role)->copies;
  const int64_t rows = parameter.shape[0], columns = parameter.shape[1];
  if (parameter.role == Role::kExpertDown) {
    return Place{"down_proj", {experts, rows, columns}, {*expert, 0, 0}};
  }
  const int64_t first = parameter.role == Role::kExpertUp ? rows : 0;
  return Place{"gate_up_proj", {experts, 2 * rows, columns}, {*expert, first, 0}};
}

// Mixtral's block has another name in files than in memory.
std::string in_memory(std::string name) {
  constexpr std::string_view kInFiles = ".block_sparse_moe.";
  const size_t at = name.find(kInFiles);
  if (at != std::string::npos) name.replace(at, kInFiles.size(), ".mlp.");
  return name;
}

// "model." of "model.layers", without which the base model's own files name what it has.
std::string_view base_prefix(const model::Inventory& inventory) {
  const std::string_view layers = inventory.names.layers;
  return layers.substr(0, layers.find('.') + 1);
}

}  // namespace

std::vector<Place> places_of(const model::ParameterSpec& parameter,
                             const model::Inventory& inventory) {
  const Shape origin(parameter.shape.size(), 0);
  std::vector<Place> places = {{parameter.name, parameter.shape, origin}};
  const std::string renamed = in_memory(parameter.name);
  if (renamed != parameter.name) places.push_back({renamed, parameter.shape, origin});
  if (auto all = stacked(parameter, inventory)) {
    constexpr std::string_view kExperts = ".experts.";
    all->name = cat(renamed.substr(0, renamed.find(kExperts)), kExperts, all->name);
    places.push_back(*std::move(all));
  }
  if (parameter.adapter != model::AdapterPart::kNone) {
    places.push_back({cat(kPeftPrefix, parameter.name), parameter.shape, origin});
  }
  const std::string_view prefix = base_prefix(inventory);
  for (size_t i = 0, count = places.size(); i < count; ++i) {
    if (!starts_with(places[i].name, prefix)) continue;
    Place bare = places[i];
    bare.name.erase(0, prefix.size());
    places.push_back(std::move(bare));
  }
  return places;
}

HubNames::HubNames(const TensorSource& source, const model::Inventory& inventory)
    : source_(source) {
  std::set<std::string> used;
  for (const model::ParameterSpec& parameter : inventory.parameters) {
    if (source.find(parameter.name) != nullptr) continue;
    for (Place& place : places_of(parameter, inventory)) {
      const StoredTensor* stored = source.find(place.name);
      if (stored == nullptr || stored->shape != place.shape) continue;
      used.insert(stored->name);
      tensors_.push_back({.name = parameter.name,
                          .shape = parameter.shape,
                          .dtype = stored->dtype,
                          .shards = {{0, mesh::Box::whole(parameter.shape)}}});
      elsewhere_.emplace(parameter.name, std::move(place));
      break;
    }
  }
  for (const StoredTensor& stored : source.tensors()) {
    if (!used.contains(stored.name)) tensors_.push_back(stored);
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
}

void HubNames::read(std::string_view name, const mesh::Box& box, const Destination& out) const {
  const auto found = elsewhere_.find(name);
  if (found == elsewhere_.end()) return source_.read(name, box, out);
  const Place& place = found->second;
  const size_t more = place.offset.size() - box.shape.size();
  mesh::Box stored{place.offset, Shape(more, 1)};
  stored.shape.insert(stored.shape.end(), box.shape.begin(), box.shape.end());
  for (size_t dim = 0; dim < box.offset.size(); ++dim) {
    stored.offset[more + dim] += box.offset[dim];
  }
  source_.read(place.name, stored, with_dims_in_front(out, more));
}

}  // namespace am::stored
