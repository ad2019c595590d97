#include "am/checkpoint/peft.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/stored/fit.h"
#include "am/stored/hf_source.h"
#include "am/stored/hub_names.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

using model::AdapterPart;

constexpr const char* kWeights = "adapter_model.safetensors";
constexpr const char* kPickledWeights = "adapter_model.bin";
constexpr const char* kConfig = "adapter_config.json";

const model::ModuleSpec& module_of(const model::Inventory& inventory,
                                   const model::ParameterSpec& parameter) {
  const model::DecoderSpec& spec = inventory.spec;
  const model::ModuleSpec* module = parameter.layer < 0
                                        ? spec.find(parameter.role)
                                        : spec.layer(parameter.layer).find(parameter.role);
  AM_ASSERT(module != nullptr, cat(parameter.name, " belongs to no module"));
  return *module;
}

// All have one.
model::AdapterSpec adapter_of(const model::Inventory& inventory) {
  for (const model::ParameterSpec& parameter : inventory.parameters) {
    if (parameter.adapter != AdapterPart::kNone) return *module_of(inventory, parameter).adapter;
  }
  throw Error(ErrorKind::kUsage, "the model has no adapters", "lora.rank in the plan adds them");
}

// Keys of adapter_config.json that change nothing about what A and B of one rank and one factor
// add, as of PEFT 0.21: where an adapter is attached shows in its tensors' names.
constexpr std::array<std::string_view, 20> kNeutralKeys = {"auto_mapping",
                                                           "base_model_name_or_path",
                                                           "eva_config",
                                                           "exclude_modules",
                                                           "fan_in_fan_out",
                                                           "inference_mode",
                                                           "layers_pattern",
                                                           "layers_to_transform",
                                                           "lora_alpha",
                                                           "lora_dropout",
                                                           "megatron_core",
                                                           "peft_type",
                                                           "peft_version",
                                                           "qalora_group_size",
                                                           "r",
                                                           "revision",
                                                           "runtime_config",
                                                           "target_modules",
                                                           "task_type",
                                                           "use_rslora"};

// Ways to begin that leave the base model as it is; "pissa", "olora", "corda", "loftq", "lora_ga"
// and their like take from its weights what A and B begin with.
constexpr std::array<std::string_view, 3> kNeutralBeginnings = {"gaussian", "eva", "orthogonal"};

bool is_neutral(const std::string& key, const Json& value) {
  const auto among = [](const auto& list, std::string_view text) {
    return std::find(list.begin(), list.end(), text) != list.end();
  };
  if (value.is_null() || value == Json(false) || among(kNeutralKeys, key)) return true;
  if (key == "bias") return value == Json("none");
  if (key == "init_lora_weights") {
    return value.is_boolean() ||
           (value.is_string() && among(kNeutralBeginnings, value.get<std::string>()));
  }
  return (value.is_structured() || value.is_string()) && value.empty();
}

// The keys that make an adapter more than A and B of one rank and one factor, or that are not
// known.
std::vector<std::string> not_plain(const Json& config) {
  std::vector<std::string> found;
  for (const auto& [key, value] : config.items()) {
    if (is_neutral(key, value)) continue;
    found.push_back(value.is_string() ? cat(key, " = ", dump_json(value, -1)) : key);
  }
  return found;
}

Json read_config(const fs::path& file) { return parse_json_object(read_file(file), file.string()); }

void check_config(const fs::path& file, const model::AdapterSpec& ours) {
  const Json config = read_config(file);
  if (config.value("peft_type", std::string("LORA")) != "LORA") {
    throw Error(ErrorKind::kFormat, cat(file.string(), ": peft_type is ",
                                        dump_json(config.at("peft_type"), -1), ", not \"LORA\""));
  }
  if (const auto more = not_plain(config); !more.empty()) {
    throw Error(ErrorKind::kFormat, cat(file.string(), ": ", join(more, ", "), " is not supported"),
                "adapters of one rank and one factor, without more, are read; or merge it into its "
                "base model first (PEFT's merge_and_unload)");
  }
  const Json rank = config.value("r", Json()), alpha = config.value("lora_alpha", Json());
  if (!rank.is_number_integer() || rank.get<int64_t>() < 1 || !alpha.is_number()) {
    throw Error(ErrorKind::kFormat, cat(file.string(), ": r and lora_alpha are no numbers"));
  }
  if (rank.get<int64_t>() != ours.rank) {
    throw Error(ErrorKind::kFormat,
                cat(file.string(), ": its adapters have the rank ", rank.get<int64_t>(),
                    ", the plan's ", ours.rank),
                cat("lora.rank = ", rank.get<int64_t>()));
  }
  const double r = as_double(ours.rank);
  const bool root = config.value("use_rslora", false);
  const double scale = alpha.get<double>() / (root ? std::sqrt(r) : r);
  if (std::abs(scale - ours.scale) > 1e-9 * std::abs(scale)) {
    throw Error(ErrorKind::kFormat,
                cat(file.string(), ": the factor of its adapters is ", scale,
                    ", that of the plan, ", "alpha / rank, is ", ours.scale),
                cat("lora.alpha = ", scale * r));
  }
}

void check_tensors(const model::Inventory& inventory, const stored::TensorSource& named) {
  std::vector<std::string> wrong;
  std::set<std::string_view> wanted;
  for (const model::ParameterSpec& parameter : inventory.parameters) {
    if (parameter.adapter == AdapterPart::kNone) continue;
    wanted.insert(parameter.name);
    const stored::StoredTensor* stored = named.find(parameter.name);
    if (stored == nullptr) {
      wrong.push_back(cat(parameter.name, " is missing"));
    } else if (stored->shape != parameter.shape || !stored::holds_values(stored->dtype)) {
      wrong.push_back(cat(parameter.name, " is ", shape_text(stored->shape), ", the plan's ",
                          shape_text(parameter.shape)));
    }
  }
  for (const stored::StoredTensor& stored : named.tensors()) {
    // PEFT copies an embedding or a head beside its adapter.
    const bool copy = stored.name.find(".base_layer.") != std::string::npos;
    if (wanted.count(stored.name) == 0 && !copy) {
      wrong.push_back(cat("the model has no place for ", stored.name));
    }
  }
  if (wrong.empty()) return;
  constexpr size_t kShown = 4;
  const size_t more = wrong.size() > kShown ? wrong.size() - kShown : 0;
  if (more > 0) wrong.resize(kShown);
  throw Error(
      ErrorKind::kFormat,
      cat(named.path().string(), ": does not fit the plan's adapters: ", join(wrong, "; "),
          more > 0 ? cat("; and ", more, " more") : ""),
      "lora.target_modules as its adapter_config.json has them, and the model that it is of");
}

struct Targets {
  std::vector<std::string> names;     // of modules with an adapter
  std::set<std::string> also_others;  // last components that modules without one have too
};

Targets targets_of(const model::Inventory& inventory) {
  std::map<std::string, bool> adapted;  // by module
  for (const model::ParameterSpec& parameter : inventory.parameters) {
    adapted[parameter.module()] |= parameter.adapter != AdapterPart::kNone;
  }
  Targets targets;
  for (const auto& [module, has] : adapted) {
    if (has) targets.names.push_back(module);
    if (!has) targets.also_others.insert(module.substr(module.rfind('.') + 1));
  }
  return targets;
}

// The ends of their names where nothing else ends so, else whole names: PEFT adapts all that match.
Json target_modules(const model::Inventory& inventory) {
  const Targets targets = targets_of(inventory);
  std::set<std::string> ends;
  for (const std::string& name : targets.names) ends.insert(name.substr(name.rfind('.') + 1));
  const bool clear = std::none_of(ends.begin(), ends.end(), [&](const std::string& end) {
    return targets.also_others.contains(end);
  });
  return clear ? Json(ends) : Json(targets.names);
}

}  // namespace

bool has_adapters(const model::Inventory& inventory) {
  return std::any_of(inventory.parameters.begin(), inventory.parameters.end(),
                     [](const auto& each) { return each.adapter != AdapterPart::kNone; });
}

void load_adapter(parallel::ParallelModel& model, const fs::path& path) {
  const fs::path folder = folder_of(path);
  fs::path file = path;
  if (fs::is_directory(path)) {
    const bool pickled = !fs::exists(path / kWeights) && fs::exists(path / kPickledWeights);
    file = path / (pickled ? kPickledWeights : kWeights);
  }
  const model::Inventory& inventory = model.layout().inventory;
  const model::AdapterSpec ours = adapter_of(inventory);
  if (fs::exists(folder / kConfig)) check_config(folder / kConfig, ours);
  const auto source = stored::open_tensor_source(file);
  const stored::HubNames named(*source, inventory);
  check_tensors(inventory, named);
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::OwnedParameter& owned) {
    if (inventory.find(owned.name)->adapter == AdapterPart::kNone) return;
    read(named, owned.name, owned.box, owned.value);
  });
}

std::string adapter_config(const parallel::ParallelModel& model) {
  const model::Inventory& inventory = model.layout().inventory;
  const model::AdapterSpec adapter = adapter_of(inventory);
  bool in_out = false;
  for (const model::ParameterSpec& parameter : inventory.parameters) {
    in_out = in_out ||
             (parameter.adapter != AdapterPart::kNone && module_of(inventory, parameter).in_out);
  }
  const Json config = {
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path", folder_of(model.config().file).string()},
      {"r", adapter.rank},
      {"lora_alpha", adapter.scale * as_double(adapter.rank)},
      {"lora_dropout", adapter.dropout},
      {"bias", "none"},
      {"fan_in_fan_out", in_out},
      {"inference_mode", true},
      {"target_modules", target_modules(inventory)},
  };
  return config.dump(2) + "\n";
}

at::Tensor merged_parameter(const parallel::ParallelModel& model, const std::string& name) {
  const model::Inventory& inventory = model.layout().inventory;
  const model::ParameterSpec* parameter = inventory.find(name);
  AM_ASSERT(parameter != nullptr, cat("the inventory lacks ", name));
  at::Tensor weight = model.full_parameter(name);
  const bool adapted = !parameter->bias && module_of(inventory, *parameter).adapter.has_value();
  if (!adapted) return weight;
  const model::ModuleSpec& module = module_of(inventory, *parameter);
  const std::string prefix = parameter->module();
  const at::Tensor a_RI = model.full_parameter(prefix + ".lora_A.weight").to(at::kFloat);
  const at::Tensor b_OR = model.full_parameter(prefix + ".lora_B.weight").to(at::kFloat);
  const at::Tensor added_OI = b_OR.mm(a_RI).mul_(module.adapter->scale);
  return weight.to(at::kFloat)
      .add(module.in_out ? added_OI.t() : added_OI)
      .to(weight.scalar_type());
}

}  // namespace am::checkpoint
