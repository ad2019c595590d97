#include "am/model/inventory.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "am/base/text.h"
#include "am/model/family.h"
#include "am/model/inventory_builder.h"

namespace am::model {
namespace {

void add_before_layers(const ModelConfig& config, const Family& family, InventoryBuilder& builder) {
  builder.embedding(family.names.embedding, config.vocab_size, config.hidden_size);
  if (family.add_positions != nullptr) family.add_positions(config, builder);
}

void add_after_layers(const ModelConfig& config, const Family& family, InventoryBuilder& builder) {
  builder.norm(family.names.norm, config.hidden_size);
  if (!config.tie_word_embeddings) {
    builder.linear(family.names.head, config.vocab_size, config.hidden_size, config.head_bias);
  } else if (config.head_bias) {  // only the weight is shared
    builder.bare(family.names.head, "bias", {config.vocab_size}, ModuleKind::kLinear, Init::kZeros);
  }
}

void add_layer(const ModelConfig& config, const Family& family, int64_t layer,
               InventoryBuilder& builder) {
  builder.enter_layer(family.names.layers, static_cast<int>(layer));
  family.add_layer(config, layer, builder);
  builder.leave_layer();
}

Inventory empty_inventory(const ModelConfig& config, const Family& family) {
  Inventory inventory;
  inventory.tied_lm_head = config.tie_word_embeddings;
  inventory.names = family.names;
  return inventory;
}

// The digits after ".experts." in a name; empty where there are none.
std::string_view expert_number(std::string_view name) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t experts = name.find(kExperts);
  if (experts == std::string_view::npos) return {};
  const size_t first = experts + kExperts.size();
  size_t last = first;
  while (last < name.size() && name[last] >= '0' && name[last] <= '9') ++last;
  return name.substr(first, last - first);
}

}  // namespace

std::string ParameterSpec::module() const { return name.substr(0, name.rfind('.')); }

std::string ParameterSpec::leaf() const { return name.substr(name.rfind('.') + 1); }

std::optional<int64_t> ParameterSpec::expert() const {
  const std::string_view digits = expert_number(name);
  int64_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (module_kind != ModuleKind::kExpert || read.ec != std::errc()) return std::nullopt;
  return number;
}

int64_t Inventory::total() const {
  int64_t total = 0;
  for (const ParameterSpec& parameter : parameters) total += numel(parameter.shape);
  return total;
}

const ParameterSpec* Inventory::find(std::string_view name) const {
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const ParameterSpec& spec) { return spec.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

Inventory build_inventory(const ModelConfig& config) {
  const Family& family = family_of(config);
  Inventory inventory = empty_inventory(config, family);
  InventoryBuilder builder(config, family, inventory);
  add_before_layers(config, family, builder);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    add_layer(config, family, layer, builder);
  }
  add_after_layers(config, family, builder);
  return inventory;
}

InventorySample sample_inventory(const ModelConfig& config) {
  const Family& family = family_of(config);
  InventorySample sample{.inventory = empty_inventory(config, family)};
  InventoryBuilder builder(config, family, sample.inventory);
  add_before_layers(config, family, builder);
  for (const bool experts : {false, true}) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      if (has_experts(config, layer) != experts) continue;
      const auto number = static_cast<int>(layer);
      if (sample.layers.empty() || has_experts(config, sample.layers.back()) != experts) {
        add_layer(config, family, layer, builder);
        sample.layers.push_back(number);
        sample.layer_counts.push_back(0);
      }
      ++sample.layer_counts.back();
    }
  }
  add_after_layers(config, family, builder);
  return sample;
}

std::string any_layer_name(std::string_view name, int layer) {
  if (layer < 0) return std::string(name);
  const std::string number = cat(".", layer, ".");
  const size_t at = name.find(number);
  if (at == std::string_view::npos) return std::string(name);
  std::string any = cat(name.substr(0, at), ".*.", name.substr(at + number.size()));
  const std::string_view expert = expert_number(any);
  if (expert.empty()) return any;
  const auto first = static_cast<size_t>(expert.data() - any.data());
  return any.replace(first, expert.size(), "*");
}

std::vector<Unit> shard_units(const Inventory& inventory) {
  const ModuleNames& names = inventory.names;
  std::vector<Unit> units;
  Unit embedding{.name = std::string(names.embedding), .parameters = {}, .layer = -1};
  Unit head{.name = std::string(names.head), .parameters = {}, .layer = -1};
  Unit root{.name = "", .parameters = {}, .layer = -1};
  std::vector<Unit> layers;
  for (size_t i = 0; i < inventory.parameters.size(); ++i) {
    const ParameterSpec& parameter = inventory.parameters[i];
    const auto index = static_cast<int>(i);
    if (parameter.layer >= 0) {
      const auto layer = static_cast<size_t>(parameter.layer);
      while (layers.size() <= layer) {
        const auto next = static_cast<int>(layers.size());
        layers.push_back({.name = cat(names.layers, ".", next), .parameters = {}, .layer = next});
      }
      layers[layer].parameters.push_back(index);
    } else if (parameter.module_kind == ModuleKind::kEmbedding) {
      embedding.parameters.push_back(index);
    } else if (starts_with(parameter.name, cat(names.head, "."))) {
      head.parameters.push_back(index);
    } else {
      root.parameters.push_back(index);
    }
  }
  units.push_back(std::move(embedding));
  for (Unit& layer : layers) units.push_back(std::move(layer));
  if (!head.parameters.empty()) units.push_back(std::move(head));
  units.push_back(std::move(root));
  return units;
}

}  // namespace am::model
