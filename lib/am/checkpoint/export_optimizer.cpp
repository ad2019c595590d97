#include "am/checkpoint/export_optimizer.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/frameworks/optimizer_settings.h"
#include "am/frameworks/state_name.h"
#include "am/run_folder/checkpoint_info.h"
#include "am/run_folder/shard_index.h"

namespace am::checkpoint {

namespace {

using formats::Settings;
using formats::SettingValue;

constexpr const char* kStep = "step";
constexpr std::array<const char*, 2> kAdamStates = {"exp_avg", "exp_avg_sq"};
constexpr std::array<const char*, 4> kAdamSettings = {"lr", "betas", "eps", "weight_decay"};

// Optimizer states and settings of a checkpoint, by parameter.
class StoredStates {
 public:
  explicit StoredStates(const stored::TensorSource& source)
      : source_(source), groups_(frameworks::read_settings_groups(source)) {
    for (const stored::StoredTensor& tensor : source.optimizer_tensors()) {
      const auto name = frameworks::split_state(tensor.name);
      if (!name || name->state == kStep) continue;
      if (source.find(name->parameter) == nullptr) {
        if (nameless_.empty()) nameless_ = tensor.name;
        continue;
      }
      states_[std::string(name->parameter)].emplace_back(name->state);
    }
    for (const frameworks::SettingsGroup& group : groups_) {
      for (const std::string& parameter : group.parameters) settings_[parameter] = &group.settings;
    }
    const bool is_own = source.format() == "automesh" && run_folder::is_checkpoint(source.path());
    if (is_own) {
      const auto info = run_folder::read_checkpoint_info(source.path());
      own_updates_ = static_cast<double>(info.step - info.skipped_steps);
    }
    if (states_.empty() && settings_.empty()) {
      fail(nameless_.empty() ? std::string("holds no optimizer states")
                             : cat("no parameter is stored for the optimizer state ", nameless_),
           "export without --optimizer, or open a checkpoint that has the optimizer's states");
    }
  }

  const std::vector<frameworks::SettingsGroup>& groups() const { return groups_; }
  bool has_settings() const { return !groups_.empty(); }
  const std::vector<std::string>& states_of(const std::string& parameter) const {
    static const std::vector<std::string> kNone;
    const auto found = states_.find(parameter);
    return found == states_.end() ? kNone : found->second;
  }
  // Returns the settings of a parameter; null if it has none.
  const Settings* settings_of(const std::string& parameter) const {
    const auto found = settings_.find(parameter);
    return found == settings_.end() ? nullptr : found->second;
  }
  // Returns whether the optimizer updates the parameter. A frozen parameter has neither states nor
  // settings. If the checkpoint contains no settings at all, every parameter counts as trained.
  bool is_trained(const std::string& parameter) const {
    return !states_of(parameter).empty() || settings_of(parameter) != nullptr || !has_settings();
  }
  std::optional<double> updates_of(const std::string& parameter) const {
    const auto stored = frameworks::updates_of(source_, parameter, settings_of(parameter));
    if (stored) return stored;
    return has_adam(parameter) ? own_updates_ : std::nullopt;
  }
  bool has_adam(const std::string& parameter) const {
    const auto& states = states_of(parameter);
    return std::find(states.begin(), states.end(), kAdamStates[1]) != states.end();
  }

  [[noreturn]] void fail(
      const std::string& what,
      const std::string& hint = "without --optimizer only the weights are exported") const {
    throw Error(ErrorKind::kFormat, cat(source_.path().string(), ": ", what), hint);
  }

 private:
  const stored::TensorSource& source_;
  std::vector<frameworks::SettingsGroup> groups_;
  std::map<std::string, std::vector<std::string>, std::less<>> states_;
  std::map<std::string, const Settings*, std::less<>> settings_;
  std::optional<double> own_updates_;  // number of updates, if am-run wrote the source
  std::string nameless_;  // name of the first state without a stored parameter; empty: none
};

// Returns the stored settings in the form that PyTorch's optimizers need. Omits the step count.
// Resets flags that only select an implementation for a device. If `adam` is true, adds missing
// settings of Adam with the defaults of PyTorch's AdamW, and sets a missing initial_lr to lr.
Settings completed(const Settings& stored, bool adam) {
  const Settings defaults = {{"amsgrad", false},
                             {"maximize", false},
                             {"foreach", SettingValue()},
                             {"capturable", false},
                             {"differentiable", false},
                             {"fused", SettingValue()},
                             {"decoupled_weight_decay", true}};
  const std::set<std::string, std::less<>> of_device = {"foreach", "capturable", "differentiable",
                                                        "fused"};
  Settings settings;
  for (const auto& own : stored) {
    if (own.first == kStep) continue;
    const auto known = std::find_if(defaults.begin(), defaults.end(),
                                    [&](const auto& each) { return each.first == own.first; });
    const bool reset = of_device.contains(own.first) && known != defaults.end();
    settings.emplace_back(own.first, reset ? known->second : own.second);
  }
  if (!adam) return settings;
  for (const auto& each : defaults) {
    if (formats::find_setting(settings, each.first) == nullptr) settings.push_back(each);
  }
  const SettingValue* lr = formats::find_setting(settings, "lr");
  if (lr != nullptr && formats::find_setting(settings, "initial_lr") == nullptr) {
    settings.emplace_back("initial_lr", *lr);
  }
  return settings;
}

// Returns the group of `groups` with these settings; adds the group if there is none. `counts`:
// whether the group is for parameters with step counts.
ValueGroup& group_of(std::vector<ValueGroup>& groups, const Settings& settings, bool counts) {
  auto group = std::find_if(groups.begin(), groups.end(), [&](const ValueGroup& each) {
    return each.settings == settings && each.steps.empty() != counts;
  });
  if (group == groups.end()) group = groups.insert(group, {settings, {}, {}});
  return *group;
}

void add_parameter(std::vector<ValueGroup>& groups, const Settings& settings,
                   const std::string& name, const std::optional<double>& updates) {
  ValueGroup& group = group_of(groups, settings, updates.has_value());
  group.names.push_back(name);
  if (updates) group.steps.push_back(*updates);
}

// Throws Error(kFormat) if a parameter lacks a state that the first parameter with states in the
// same group has.
void require_equal_states(const StoredStates& stored) {
  for (const frameworks::SettingsGroup& group : stored.groups()) {
    const std::string* first = nullptr;
    for (const std::string& parameter : group.parameters) {
      if (first == nullptr && !stored.states_of(parameter).empty()) first = &parameter;
    }
    if (first == nullptr) continue;
    for (const std::string& parameter : group.parameters) {
      for (const std::string& state : stored.states_of(*first)) {
        const auto& own = stored.states_of(parameter);
        if (std::find(own.begin(), own.end(), state) != own.end()) continue;
        stored.fail(cat(parameter, " has no optimizer state ", state, ", which ", *first, " has"));
      }
    }
  }
}

// Collects the states and settings of the framework's parameters from the states and settings of
// the Hugging Face parameters in the source.
class FrameworkStates {
 public:
  FrameworkStates(const stored::TensorSource& source, const frameworks::NameTable& table)
      : source_(source), table_(table), stored_(source) {}

  void add(const FilledTensor& parameter) {
    const std::string& first = parameter.parts.front().hub;
    const bool trained = stored_.is_trained(first);
    for (const FilledPart& part : parameter.parts) {
      if (stored_.is_trained(part.hub) == trained) continue;
      const std::string& frozen = trained ? part.hub : first;
      stored_.fail(cat(frozen, " has no optimizer state, but ", table_.framework,
                       " stores this parameter in ", parameter.name,
                       ", together with trained parameters"));
    }
    if (!trained) return;
    for (const char* state : kAdamStates) add_state(parameter, state);
    add_settings(parameter);
  }

  ExportedOptimizer finish() && {
    if (result_.states.empty()) stored_.fail("holds no optimizer states of the model's parameters");
    return std::move(result_);
  }

 private:
  // Returns the tensor of a parameter's state. Throws Error(kFormat) if the state is missing or
  // differs in shape from the parameter, or if the parameter has a state that AdamW does not have.
  const stored::StoredTensor& require_state(const std::string& parameter, const char* state) const {
    const std::vector<std::string>& own = stored_.states_of(parameter);
    for (const std::string& each : own) {
      if (std::find(kAdamStates.begin(), kAdamStates.end(), each) != kAdamStates.end()) continue;
      stored_.fail(
          cat(parameter, " has the optimizer state ", each, ", but the optimizer of ",
              table_.framework, " is AdamW, which has exp_avg and exp_avg_sq"),
          "--format dcp keeps the states of any optimizer; without --optimizer only the weights "
          "are exported");
    }
    if (std::find(own.begin(), own.end(), state) == own.end()) {
      stored_.fail(cat(parameter, " has no optimizer state ", state));
    }
    const stored::StoredTensor& tensor = *source_.find(run_folder::state_name(parameter, state));
    const stored::StoredTensor& of = *source_.find(parameter);
    if (tensor.shape != of.shape) {
      stored_.fail(cat(tensor.name, " is ", shape_text(tensor.shape), ", but its parameter is ",
                       shape_text(of.shape)));
    }
    return tensor;
  }

  void add_state(const FilledTensor& parameter, const char* state) {
    FilledTensor tensor = parameter;
    for (FilledPart& part : tensor.parts) {
      const stored::StoredTensor& own = require_state(part.hub, state);
      const bool first = &part == tensor.parts.data();
      if (!first && own.dtype != tensor.dtype) {
        stored_.fail(cat(own.name, " differs in dtype from the other states in ", parameter.name));
      }
      tensor.dtype = own.dtype;
      part.hub = own.name;
    }
    result_.states.push_back({std::move(tensor), state});
  }

  void add_settings(const FilledTensor& parameter) {
    const std::string& first = parameter.parts.front().hub;
    const Settings* settings = stored_.settings_of(first);
    if (settings == nullptr) {
      stored_.fail(cat("the settings of the optimizer (lr, betas, ..) are not stored for ", first));
    }
    for (const char* name : kAdamSettings) {
      if (formats::find_setting(*settings, name) != nullptr) continue;
      stored_.fail(cat("the optimizer's setting ", name, " is not stored for ", first));
    }
    const auto updates = stored_.updates_of(first);
    if (!updates) stored_.fail(cat("the number of updates is not stored for ", first));
    const Settings complete = completed(*settings, true);
    for (const FilledPart& part : parameter.parts) {
      const Settings* own = stored_.settings_of(part.hub);
      if (own != nullptr && completed(*own, true) == complete &&
          stored_.updates_of(part.hub) == updates) {
        continue;
      }
      stored_.fail(cat("the optimizer has different settings or step counts for ", first, " and ",
                       part.hub, ", but ", table_.framework, " stores both parameters in ",
                       parameter.name));
    }
    add_parameter(result_.groups, complete, parameter.name, updates);
  }

  const stored::TensorSource& source_;
  const frameworks::NameTable& table_;
  StoredStates stored_;
  ExportedOptimizer result_;
};

}  // namespace

std::optional<double> ExportedOptimizer::common_steps() const {
  std::optional<double> common;
  for (const ValueGroup& group : groups) {
    for (const double steps : group.steps) {
      if (common && *common != steps) return std::nullopt;
      common = steps;
    }
  }
  return common;
}

ExportedOptimizer stored_optimizer(const stored::TensorSource& source) {
  const StoredStates stored(source);
  require_equal_states(stored);
  ExportedOptimizer result;
  std::set<std::string> counted;  // parameters whose step counts are in result.groups
  for (const frameworks::SettingsGroup& group : stored.groups()) {
    for (const std::string& parameter : group.parameters) {
      const auto updates = stored.updates_of(parameter);
      const Settings settings = completed(group.settings, stored.has_adam(parameter));
      add_parameter(result.groups, settings, parameter, updates);
      if (updates) counted.insert(parameter);
    }
  }
  for (const stored::StoredTensor& tensor : source.optimizer_tensors()) {
    const auto name = frameworks::split_state(tensor.name);
    if (!name) continue;
    const std::string parameter(name->parameter);
    if (name->state == kStep && counted.contains(parameter)) continue;
    ExportedState state{filled_by(tensor), std::string(name->state)};
    state.tensor.name = parameter;
    result.states.push_back(std::move(state));
  }
  if (!stored.has_settings()) {
    result.notes.emplace_back(
        "the checkpoint has no settings of the optimizer (param_groups): only its states were "
        "exported");
  }
  return result;
}

ExportedOptimizer framework_optimizer(const stored::TensorSource& source,
                                      const std::vector<FilledTensor>& parameters,
                                      const frameworks::NameTable& table) {
  FrameworkStates states(source, table);
  for (const FilledTensor& parameter : parameters) states.add(parameter);
  return std::move(states).finish();
}

}  // namespace am::checkpoint
