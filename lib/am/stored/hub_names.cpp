#include "am/stored/hub_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::stored {

namespace {

using model::Role;

// Returns the location of an expert's matrix in one of the two tensors that stack a layer's
// experts: gate_up_proj [experts, 2 * F, D] and down_proj [experts, D, F]. F is the experts'
// intermediate size, D the hidden size. Returns nullopt if the parameter is not an expert's matrix.
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

// A part of a parameter's name in files, and the part that replaces it in memory.
struct Renaming {
  std::string_view in_files;
  std::string_view in_memory;
};

// Renamings of transformers: Granite MoE's experts and router, the MoE blocks of Mixtral and
// MiniMax-M2, the correction bias of ERNIE 4.5 MoE, and GPT-NeoX's head.
constexpr std::array<Renaming, 6> kRenamings = {{
    {".block_sparse_moe.input_linear.weight", ".block_sparse_moe.experts.gate_up_proj"},
    {".block_sparse_moe.output_linear.weight", ".block_sparse_moe.experts.down_proj"},
    {".block_sparse_moe.router.layer.", ".block_sparse_moe.router."},
    {".block_sparse_moe.", ".mlp."},
    {".mlp.moe_statics.", ".mlp.gate.moe_statics."},
    {"embed_out.", "lm_head."},
}};

// Returns the name that transformers uses in memory for a name in files. Applies only the first
// renaming whose `in_files` occurs in the name.
std::string in_memory(std::string name) {
  for (const Renaming& each : kRenamings) {
    const size_t at = name.find(each.in_files);
    if (at == std::string::npos) continue;
    return name.replace(at, each.in_files.size(), each.in_memory);
  }
  return name;
}

constexpr std::array<std::string_view, 2> kAdapterParts = {".lora_A.", ".lora_B."};
constexpr std::string_view kBaseLayer = ".base_layer.";

// Returns PEFT's adapter name in a tensor's name, for example "default" in
// "q_proj.lora_A.default.weight". Returns nullopt if the name has none, for example
// "q_proj.lora_A.weight".
std::optional<std::string_view> own_name(std::string_view name) {
  for (const std::string_view part : kAdapterParts) {
    const size_t at = name.find(part);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = name.substr(at + part.size());
    const size_t dot = rest.find('.');
    if (dot != std::string_view::npos) return rest.substr(0, dot);
  }
  return std::nullopt;
}

// Returns PEFT's adapter name in the names of a source's tensors. Returns an empty text if the
// tensors' names contain no adapter name, or different ones.
std::string adapter_name(const TensorSource& source) {
  std::set<std::string_view> names;
  for (const StoredTensor& stored : source.tensors()) {
    if (const auto name = own_name(stored.name)) names.insert(*name);
  }
  return names.size() == 1 ? std::string(*names.begin()) : std::string();
}

// Returns the stored tensor for the model's parameter `name`; null if there is none. Tries `prefix`
// + `name` first. If `adapter`, PEFT's adapter name, is not empty, tries a second name: for an
// adapter's matrix, the first name with the adapter name inserted; for other parameters, the first
// name with "base_layer" inserted.
const StoredTensor* find_behind(const TensorSource& source, const std::string& prefix,
                                const std::string& adapter, const std::string& name) {
  if (const StoredTensor* stored = source.find(prefix + name)) return stored;
  if (adapter.empty()) return nullptr;
  for (const std::string_view part : kAdapterParts) {
    const size_t at = name.find(part);
    if (at == std::string::npos) continue;
    std::string named = prefix + name;
    named.insert(prefix.size() + at + part.size(), adapter + ".");
    return source.find(named);
  }
  std::string base = prefix + name;
  const size_t dot = base.rfind('.');
  if (dot == std::string::npos) return nullptr;
  return source.find(base.replace(dot, 1, kBaseLayer));
}

// Returns the first component of the layers' names with its dot, for example "model.". Names in
// files of a base model (without the LM head) lack this component.
std::string_view base_prefix(const model::Inventory& inventory) {
  const std::string_view layers = inventory.names.layers;
  return layers.substr(0, layers.find('.') + 1);
}

// A source, and the model whose parameters are looked up in it.
struct Lookup {
  const TensorSource& source;
  const model::Inventory& inventory;
  const std::string& adapter;

  bool has(const model::ParameterSpec& parameter, const std::string& prefix) const {
    const std::vector<Place> places = places_of(parameter, inventory);
    return std::any_of(places.begin(), places.end(), [&](const Place& place) {
      return find_behind(source, prefix, adapter, place.name) != nullptr;
    });
  }
};

// Returns the prefixes in the source's tensor names that are followed by a possible name of the
// parameter.
std::set<std::string> prefixes_of(const model::ParameterSpec& parameter, const Lookup& lookup) {
  std::set<std::string> prefixes;
  for (const Place& place : places_of(parameter, lookup.inventory)) {
    for (const StoredTensor& stored : lookup.source.tensors()) {
      const size_t last = place.name.rfind('.');
      const std::string_view module = std::string_view(place.name).substr(0, last);
      // Compares only the module's name, because the adapter name or "base_layer" may be inserted
      // before the last component of the tensor's name.
      const size_t at = stored.name.rfind(module);
      if (at == std::string::npos || at == 0 || stored.name[at - 1] != '.') continue;
      std::string prefix = stored.name.substr(0, at);
      const StoredTensor* found = find_behind(lookup.source, prefix, lookup.adapter, place.name);
      if (found == &stored) prefixes.insert(std::move(prefix));
    }
  }
  return prefixes;
}

// Returns the prefix with which the source contains the most parameters of the model. Counts only
// adapters if `adapters` is set, otherwise only parameters that are not adapters. If several
// prefixes have the highest count, returns the one with which all others of them begin; throws
// Error(kFormat) if none fulfils this. Returns an empty prefix if any parameter is found without a
// prefix, and nullopt if no parameter is found.
std::optional<std::string> prefix_among(const Lookup& lookup, bool adapters) {
  std::vector<const model::ParameterSpec*> parameters;
  for (const model::ParameterSpec& parameter : lookup.inventory.parameters) {
    const bool adapter = parameter.adapter != model::AdapterPart::kNone;
    if (adapter == adapters) parameters.push_back(&parameter);
  }
  const auto behind = [&](const std::string& prefix) {
    return [&lookup, &prefix](const auto* parameter) { return lookup.has(*parameter, prefix); };
  };
  const std::string none;
  if (std::any_of(parameters.begin(), parameters.end(), behind(none))) return none;
  std::set<std::string> prefixes;
  for (const model::ParameterSpec* parameter : parameters) {
    prefixes = prefixes_of(*parameter, lookup);
    if (!prefixes.empty()) break;
  }
  if (prefixes.empty()) return std::nullopt;
  std::string best;
  std::ptrdiff_t most = 0;
  std::vector<std::string> equal;
  for (const std::string& prefix : prefixes) {
    const auto found = std::count_if(parameters.begin(), parameters.end(), behind(prefix));
    if (found == most && !starts_with(prefix, best)) equal.push_back(prefix);
    if (found <= most) continue;
    best = prefix;
    most = found;
    equal.clear();
  }
  if (equal.empty()) return best;
  throw Error(ErrorKind::kFormat,
              cat(lookup.source.path().string(),
                  ": the names of the model's parameters occur with two prefixes, \"", best,
                  "\" and \"", equal.front(), "\""),
              "keep only the tensors of one model in the file");
}

// Returns the prefix of the model's names in a source. Derives it from the base weights or, if the
// source has none, from the adapters.
std::string prefix_of(const Lookup& lookup) {
  const auto prefix = prefix_among(lookup, false);
  return prefix ? *prefix : prefix_among(lookup, true).value_or(std::string());
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
  if (inventory.tied_lm_head && parameter.role == Role::kEmbedding) {
    places.push_back({cat(inventory.names.head, ".weight"), parameter.shape, origin});
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
    : source_(source),
      adapter_(adapter_name(source)),
      prefix_(prefix_of({source, inventory, adapter_})) {
  std::set<std::string> used;
  const auto take = [&](const std::string& name, const Shape& shape, const StoredTensor& stored,
                        const Place& place) {
    used.insert(stored.name);
    tensors_.push_back({.name = name,
                        .shape = shape,
                        .dtype = stored.dtype,
                        .shards = {{0, mesh::Box::whole(shape)}}});
    elsewhere_.emplace(name, Place{stored.name, place.shape, place.offset});
  };
  for (const model::ParameterSpec& parameter : inventory.parameters) {
    if (source.find(parameter.name) != nullptr) continue;
    for (const Place& place : places_of(parameter, inventory)) {
      const StoredTensor* stored = find_behind(source, prefix_, adapter_, place.name);
      if (stored == nullptr || stored->shape != place.shape) continue;
      take(parameter.name, parameter.shape, *stored, place);
      break;
    }
  }
  for (const StoredTensor& stored : source.tensors()) {
    if (used.contains(stored.name)) continue;
    const std::string name =
        stored.name.substr(starts_with(stored.name, prefix_) ? prefix_.size() : 0);
    if (name == stored.name) {
      tensors_.push_back(stored);
    } else {
      take(name, stored.shape, stored, {{}, stored.shape, Shape(stored.shape.size(), 0)});
    }
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
