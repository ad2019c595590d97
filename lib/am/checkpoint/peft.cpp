#include "am/checkpoint/peft.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
#include "am/stored/adapter_config.h"
#include "am/stored/fit.h"
#include "am/stored/hub_names.h"
#include "am/stored/tensor_source.h"

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

// Returns the settings of the model's adapters. All adapted modules have equal settings. Throws
// Error(kUsage) if the model has no adapters.
model::AdapterSpec adapter_of(const model::Inventory& inventory) {
  for (const model::ParameterSpec& parameter : inventory.parameters) {
    if (parameter.adapter != AdapterPart::kNone) return *module_of(inventory, parameter).adapter;
  }
  throw Error(ErrorKind::kUsage, "the model has no adapters",
              "set lora.rank in the plan to add adapters");
}

void check_tensors(const layout::Layout& layout, const stored::TensorSource& named) {
  std::vector<std::string> wrong;
  std::set<std::string_view> wanted;
  for (const size_t i : parameters_of_adapter(layout)) {
    const model::ParameterSpec& parameter = layout.inventory.parameters[i];
    wanted.insert(parameter.name);
    const stored::StoredTensor* stored = named.find(parameter.name);
    if (stored == nullptr) {
      wrong.push_back(cat(parameter.name, " is missing"));
    } else if (!stored::holds_values(stored->dtype)) {
      wrong.push_back(cat(parameter.name, " holds codes of quantized values"));
    } else if (stored->shape != parameter.shape) {
      wrong.push_back(cat(parameter.name, " is ", shape_text(stored->shape), ", but in the plan ",
                          shape_text(parameter.shape)));
    }
  }
  for (const stored::StoredTensor& stored : named.tensors()) {
    // If an embedding or head has an adapter, PEFT also stores the unchanged weight of this module.
    // This copy is ignored.
    const bool copy = stored.name.find(".base_layer.") != std::string::npos;
    if (wanted.count(stored.name) > 0 || copy) continue;
    std::string_view own = stored.name;
    if (starts_with(own, stored::kPeftPrefix)) own.remove_prefix(stored::kPeftPrefix.size());
    wrong.push_back(layout.inventory.find(own) != nullptr
                        ? cat(own, " is stored, but lora.modules_to_save does not name its module")
                        : cat("the model has no parameter ", stored.name));
  }
  if (wrong.empty()) return;
  constexpr size_t kShown = 4;
  const size_t more = wrong.size() > kShown ? wrong.size() - kShown : 0;
  if (more > 0) wrong.resize(kShown);
  throw Error(ErrorKind::kFormat,
              cat(named.path().string(), ": does not fit the plan's adapters: ", join(wrong, "; "),
                  more > 0 ? cat("; and ", more, " more") : ""),
              "set lora.rank, lora.target_modules and lora.modules_to_save as in the adapter's "
              "adapter_config.json, and use the adapter's base model");
}

struct Targets {
  std::vector<std::string> names;     // names of modules with an adapter
  std::set<std::string> also_others;  // last components of the names of modules without an adapter
};

Targets targets_of(const model::Inventory& inventory) {
  std::map<std::string, bool> adapted;  // module name -> whether the module has an adapter
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

// Returns the value of PEFT's target_modules: the last components of the adapted modules' names.
// PEFT adapts every module whose name ends with one of these components. If PEFT would then adapt a
// module that has no adapter here, returns the modules' full names instead.
Json target_modules(const model::Inventory& inventory) {
  const Targets targets = targets_of(inventory);
  std::set<std::string> ends;
  for (const std::string& name : targets.names) ends.insert(name.substr(name.rfind('.') + 1));
  const bool clear = std::none_of(ends.begin(), ends.end(), [&](const std::string& end) {
    return targets.also_others.contains(end);
  });
  return clear ? Json(ends) : Json(targets.names);
}

// Returns the names of the modules whose base weights are trained; null if there are none.
Json modules_to_save(const layout::Layout& layout) {
  std::set<std::string> modules;
  for (const size_t i : parameters_of_adapter(layout)) {
    const model::ParameterSpec& parameter = layout.inventory.parameters[i];
    if (parameter.adapter == AdapterPart::kNone) modules.insert(parameter.module());
  }
  return modules.empty() ? Json() : Json(modules);
}

// Returns the norm of each output's weights in a full weight: a float32 tensor of shape [outputs].
// `in_out`: the weight is stored as [inputs, outputs] instead of [outputs, inputs].
at::Tensor row_norms(const at::Tensor& weight, bool in_out) {
  return at::linalg_vector_norm(weight, 2, at::IntArrayRef{in_out ? 0 : 1}, /*keepdim=*/false,
                                at::kFloat);
}

}  // namespace

std::vector<size_t> parameters_of_adapter(const layout::Layout& layout) {
  std::vector<size_t> found;
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const bool adapter = layout.inventory.parameters[i].adapter != AdapterPart::kNone;
    if (adapter || layout.parameters[i].trainable) found.push_back(i);
  }
  return found;
}

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
  if (const fs::path config = folder / kConfig; fs::exists(config)) {
    stored::check_adapter_config(read_file(config), config.string(), ours);
  }
  const auto source = frameworks::open_tensor_source(file);
  const stored::HubNames named(*source, inventory);
  check_tensors(model.layout(), named);
  std::set<std::string_view> wanted;
  for (const size_t i : parameters_of_adapter(model.layout())) {
    wanted.insert(inventory.parameters[i].name);
  }
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::LocalParameter& owned) {
    if (wanted.contains(owned.name)) read(named, owned.name, owned.box, owned.value);
  });
}

void initialize_magnitudes(parallel::ParallelModel& model) {
  const at::NoGradGuard no_grad;
  const model::Inventory& inventory = model.layout().inventory;
  std::map<std::string_view, at::Tensor> norms;
  for (const model::ParameterSpec& parameter : inventory.parameters) {
    if (parameter.adapter != AdapterPart::kMagnitude) continue;
    const at::Tensor weight = model.full_parameter(cat(parameter.module(), ".weight"));
    norms[parameter.name] = row_norms(weight, module_of(inventory, parameter).in_out);
  }
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::LocalParameter& owned) {
    const auto found = norms.find(owned.name);
    if (found == norms.end()) return;
    owned.value.copy_(found->second.narrow(0, owned.box.offset[0], owned.box.shape[0]));
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
      {"modules_to_save", modules_to_save(model.layout())},
      {"use_dora", adapter.dora},
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
  // Suffixes of names are the dims: R is the adapter's rank, I the inputs, O the outputs.
  const at::Tensor a_RI = model.full_parameter(prefix + ".lora_A.weight").to(at::kFloat);
  const at::Tensor b_OR = model.full_parameter(prefix + ".lora_B.weight").to(at::kFloat);
  const at::Tensor added_OI = b_OR.mm(a_RI).mul_(module.adapter->scale);
  at::Tensor merged = weight.to(at::kFloat).add(module.in_out ? added_OI.t() : added_OI);
  if (module.adapter->dora) {
    const at::Tensor magnitudes_O = model.full_parameter(prefix + ".lora_magnitude_vector");
    const at::Tensor factors_O = magnitudes_O.to(at::kFloat) / row_norms(merged, module.in_out);
    merged.mul_(module.in_out ? factors_O : factors_O.unsqueeze(1));
  }
  return merged.to(weight.scalar_type());
}

}  // namespace am::checkpoint
