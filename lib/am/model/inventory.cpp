#include "am/model/inventory.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::model {
namespace {

// Converts the modules of a description to parameters, which are appended to `out`.
class Flattening {
 public:
  explicit Flattening(std::vector<ParameterSpec>& out) : out_(out) {}

  void add_all(const std::vector<ModuleSpec>& modules, std::string_view prefix, int layer) {
    prefix_ = prefix;
    layer_ = layer;
    for (size_t i = 0; i < modules.size();) {
      const size_t end = end_of_experts(modules, i);
      if (end == i) {
        add(modules[i++], std::nullopt);
        continue;
      }
      // All matrices of one expert are listed before those of the next expert.
      for (int64_t expert = 0; expert < modules[i].copies; ++expert) {
        for (size_t each = i; each < end; ++each) add(modules[each], expert);
      }
      i = end;
    }
  }

 private:
  static bool is_one_by_one(const ModuleSpec& module) {
    return module.kind == ModuleKind::kExpert && !module.stacked && !module.joined;
  }

  // Returns the index after the run of expert modules that starts at `first`. Only modules with one
  // tensor per expert belong to the run.
  static size_t end_of_experts(const std::vector<ModuleSpec>& modules, size_t first) {
    size_t end = first;
    while (end < modules.size() && is_one_by_one(modules[end])) ++end;
    return end;
  }

  void add(const ModuleSpec& module, std::optional<int64_t> expert) {
    std::string name = cat(prefix_, module.name, ".");
    if (expert.has_value()) name.replace(name.find('*'), 1, cat(*expert));
    Shape shape = {module.out};
    if (module.in > 0) shape.insert(module.in_out ? shape.begin() : shape.end(), module.in);
    Shape bias = {module.out};
    shape.insert(shape.begin(), static_cast<size_t>(module.leading_ones), 1);
    if (module.joined) shape.front() *= module.copies;
    if (module.stacked) {
      shape.insert(shape.begin(), module.copies);
      bias.insert(bias.begin(), module.copies);
    }
    if (module.stored) {
      push(module, cat(name, module.leaf), std::move(shape), module.init);
      out_.back().transposed = module.in_out && !module.stacked;
    }
    if (module.bias) {
      const bool own_leaf = module.leaf != "weight";
      push(module, own_leaf ? cat(name, module.leaf, "_bias") : name + "bias", std::move(bias),
           Init::kZeros);
      out_.back().bias = true;
    }
    if (module.adapter) add_adapter(module, name);
  }

  // Adds the matrices A and B of a LoRA adapter, and DoRA's magnitudes. As in PEFT, B is
  // initialised to zero, and the adapter then has no effect. initialize_magnitudes()
  // (checkpoint/peft.h) later sets each magnitude to the norm of one output's weights in the
  // adapted matrix.
  void add_adapter(const ModuleSpec& module, const std::string& name) {
    const int64_t rank = module.adapter->rank;
    push(module, cat(name, "lora_A.weight"), {rank, module.in}, Init::kFanIn);
    out_.back().adapter = AdapterPart::kA;
    push(module, cat(name, "lora_B.weight"), {module.out, rank}, Init::kZeros);
    out_.back().adapter = AdapterPart::kB;
    if (!module.adapter->dora) return;
    push(module, cat(name, "lora_magnitude_vector"), {module.out}, Init::kOnes);
    out_.back().adapter = AdapterPart::kMagnitude;
  }

  void push(const ModuleSpec& module, std::string name, Shape shape, Init init) {
    out_.push_back({.name = std::move(name),
                    .shape = std::move(shape),
                    .module_kind = module.kind,
                    .role = module.role,
                    .init = init,
                    .layer = layer_});
  }

  std::vector<ParameterSpec>& out_;
  std::string prefix_;
  int layer_ = -1;
};

// Returns the expert's number in a parameter's name: the digits after ".experts.". Returns an empty
// text if the name has no ".experts." or no digits after it.
std::string_view expert_number(std::string_view name) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t experts = name.find(kExperts);
  if (experts == std::string_view::npos) return {};
  const size_t first = experts + kExperts.size();
  size_t last = first;
  while (last < name.size() && name[last] >= '0' && name[last] <= '9') ++last;
  return name.substr(first, last - first);
}

// Returns the inventory of the described model, with the parameters of those layers for which
// takes(layer) is true, and with all parameters outside the layers.
template <typename Takes>
Inventory flatten(DecoderSpec described, const Takes& takes) {
  Inventory inventory;
  inventory.spec = std::move(described);
  const DecoderSpec& spec = inventory.spec;
  inventory.tied_lm_head = spec.tied;
  inventory.names = spec.names;
  Flattening flattening(inventory.parameters);
  flattening.add_all(spec.before, "", -1);
  for (size_t layer = 0; layer < spec.kind_of_layer.size(); ++layer) {
    const auto number = static_cast<int>(layer);
    if (!takes(number)) continue;
    flattening.add_all(spec.layer(number).modules, cat(spec.names.layers, ".", number, "."),
                       number);
  }
  flattening.add_all(spec.after, "", -1);
  return inventory;
}

}  // namespace

std::string ParameterSpec::module() const {
  return name.substr(0, name.size() - leaf().size() - 1);
}

std::string ParameterSpec::leaf() const {
  size_t dot = name.rfind('.');
  const bool is_matrix = adapter == AdapterPart::kA || adapter == AdapterPart::kB;
  if (is_matrix) dot = name.rfind('.', dot - 1);
  return name.substr(dot + 1);
}

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

size_t Inventory::weight_of(Role role) const {
  const Role owner = role == Role::kHead && tied_lm_head ? Role::kEmbedding : role;
  const auto found =
      std::find_if(parameters.begin(), parameters.end(),
                   [&](const ParameterSpec& each) { return each.role == owner && !each.bias; });
  AM_ASSERT(found != parameters.end(), "the inventory has no such module");
  return static_cast<size_t>(found - parameters.begin());
}

Inventory build_inventory(const ModelConfig& config) { return build_inventory(describe(config)); }

Inventory build_inventory(DecoderSpec spec) {
  return flatten(std::move(spec), [](int /*layer*/) { return true; });
}

Inventory sample_inventory(const ModelConfig& config) { return sample_inventory(describe(config)); }

Inventory sample_inventory(DecoderSpec spec) {
  std::vector<bool> seen(spec.kinds.size(), false);
  const std::vector<int> kinds = spec.kind_of_layer;
  return flatten(std::move(spec), [&](int layer) {
    const auto kind = static_cast<size_t>(kinds[static_cast<size_t>(layer)]);
    if (seen[kind]) return false;
    seen[kind] = true;
    return true;
  });
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
  Unit embedding{.kind = UnitKind::kEmbedding, .name = std::string(names.embedding)};
  Unit head{.kind = UnitKind::kHead, .name = std::string(names.head)};
  Unit root{.kind = UnitKind::kRoot, .name = ""};
  std::vector<Unit> layers;
  for (size_t i = 0; i < inventory.parameters.size(); ++i) {
    const ParameterSpec& parameter = inventory.parameters[i];
    const auto index = static_cast<int>(i);
    if (parameter.layer >= 0) {
      const auto layer = static_cast<size_t>(parameter.layer);
      while (layers.size() <= layer) {
        const auto next = static_cast<int>(layers.size());
        layers.push_back(
            {.kind = UnitKind::kLayer, .name = cat(names.layers, ".", next), .layer = next});
      }
      layers[layer].parameters.push_back(index);
    } else if (parameter.is_before_layers() ||
               (parameter.role == Role::kHead && inventory.tied_lm_head)) {
      // The bias of a tied head belongs to the embedding's FSDP unit, because the head reads this
      // unit's weight and the bias at the same time.
      embedding.parameters.push_back(index);
    } else if (parameter.role == Role::kHead) {
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
