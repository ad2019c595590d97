#include "am/frameworks/optimizer_settings.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/frameworks/megatron/optimizer_groups.h"
#include "am/frameworks/name_map.h"
#include "am/run_folder/shard_index.h"
#include "am/stored/dcp_source.h"
#include "am/stored/hub_config.h"
#include "am/stored/scalar.h"
#include "am/stored/state_keys.h"

namespace am::frameworks {

namespace {

using formats::Settings;
using formats::SettingValue;

// Components in the names of stored settings, for example in "optim.param_groups.0.lr". The number
// of a group or the name of a parameter follows this component.
constexpr std::array<std::string_view, 2> kHolders = {"param_groups.", "param_to_group_meta."};
constexpr std::string_view kParameters = "params";

// The parts of a stored setting's name behind a component of kHolders, for example "0" and "lr" of
// "optim.param_groups.0.lr". `holder`: the number of the group or the name of the parameter.
struct SettingName {
  std::string_view holder;
  std::string_view key;
};

std::optional<SettingName> split_setting(std::string_view name) {
  for (const std::string_view holder : kHolders) {
    const size_t at = name.find(holder);
    if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) continue;
    const std::string_view rest = name.substr(at + holder.size());
    const size_t dot = rest.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    return SettingName{rest.substr(0, dot), rest.substr(dot + 1)};
  }
  return std::nullopt;
}

// Maps a parameter name in the stored settings to the names of the source's parameters.
class ParameterNames {
 public:
  explicit ParameterNames(const stored::TensorSource& source) : source_(source) {
    const auto tables = {&torchtitan_table(), &olmo_table(), &megatron_fsdp_table()};
    for (const NameTable* table : tables) {
      if (table->format != source.format()) continue;
      auto config = stored::hub_config_of(source);
      if (!config.config) return;
      const NameMap names(*table, *std::move(config.config));
      for (const stored::StoredTensor& tensor : source.tensors()) {
        for (const std::string& stored : names.stored_names(tensor.name)) {
          by_stored_[stored].push_back(tensor.name);
        }
      }
    }
  }

  std::vector<std::string> of(std::string_view stored) const {
    std::string name = stored::without_wrappers(std::string(stored));
    for (;;) {
      if (const auto found = by_stored_.find(name); found != by_stored_.end()) return found->second;
      const stored::StoredTensor* tensor = source_.find(name);
      if (tensor != nullptr) return {name};
      constexpr std::string_view kModule = "module.";
      if (!starts_with(name, kModule)) return {};
      name.erase(0, kModule.size());
    }
  }

 private:
  const stored::TensorSource& source_;
  std::map<std::string, std::vector<std::string>, std::less<>> by_stored_;
};

// A group as it is stored: the settings and the stored names of its parameters.
struct StoredGroup {
  Settings settings;
  std::vector<std::string> parameters;
};

// Returns the groups that the values of `source` describe: one per group number in the nested form
// ("optim.param_groups.0.lr"), or one per parameter in the flattened form
// ("optim.param_groups.NAME.lr").
std::vector<StoredGroup> stored_groups(const stored::TensorSource& source) {
  std::map<std::string, StoredGroup, std::less<>> nested, flat;
  const std::vector<std::string> names = source.values();
  // If the checkpoint contains both forms, only the nested form is read, because the flattened form
  // of a large model has many values.
  const bool has_groups = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    const auto split = split_setting(name);
    return split && split->key == kParameters && parse_integer(split->holder).has_value();
  });
  for (const std::string& name : names) {
    const auto split = split_setting(name);
    if (!split) continue;
    const bool numbered = parse_integer(split->holder).has_value();
    if (numbered != has_groups) continue;
    StoredGroup& group = (numbered ? nested : flat)[std::string(split->holder)];
    if (!numbered) group.parameters = {std::string(split->holder)};
    source.visit_value(name, [&](const formats::PickleValue& value) {
      auto setting = formats::setting_value(value);
      if (!setting) return;
      const auto* parameters = std::get_if<std::vector<std::string>>(&*setting);
      if (split->key != kParameters) {
        group.settings.emplace_back(split->key, *std::move(setting));
      } else if (parameters != nullptr) {
        group.parameters = *parameters;
      }
    });
  }
  std::vector<StoredGroup> groups;
  for (auto* all : {&nested, &flat}) {
    for (auto& [name, group] : *all) groups.push_back(std::move(group));
  }
  return groups;
}

// Adds "lr" and "initial_lr" if they are stored as zero-dimensional tensors instead of numbers, as
// for an optimizer under torch.compile.
void add_tensor_settings(const stored::TensorSource& source, const std::string& parameter,
                         Settings& settings) {
  for (const char* key : {"lr", "initial_lr"}) {
    if (formats::find_setting(settings, key) != nullptr) continue;
    const std::string name = cat("optim.param_groups.", parameter, ".", key);
    if (const auto value = stored::scalar(source, name)) settings.emplace_back(key, *value);
  }
}

std::vector<SettingsGroup> groups_of_values(const stored::TensorSource& values,
                                            const stored::TensorSource& source) {
  const ParameterNames names(source);
  std::vector<std::pair<const stored::StoredTensor*, Settings>> found;
  for (StoredGroup& group : stored_groups(values)) {
    for (const std::string& stored : group.parameters) {
      for (const std::string& parameter : names.of(stored)) {
        Settings settings = group.settings;
        add_tensor_settings(source, stored, settings);
        found.emplace_back(source.find(parameter), std::move(settings));
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<SettingsGroup> groups;
  for (const auto& [tensor, settings] : found) add_to_groups(groups, settings, tensor->name);
  return groups;
}

}  // namespace

void add_to_groups(std::vector<SettingsGroup>& groups, const Settings& settings,
                   const std::string& parameter) {
  auto group = std::find_if(groups.begin(), groups.end(),
                            [&](const auto& each) { return each.settings == settings; });
  if (group == groups.end()) group = groups.insert(group, {settings, {}});
  group->parameters.push_back(parameter);
}

std::vector<SettingsGroup> read_settings_groups(const stored::TensorSource& source) {
  if (source.format() == "automesh") {
    if (!stored::is_dcp_source(source.path())) return {};
    return groups_of_values(*stored::open_dcp_source(source.path()), source);
  }
  if (source.format() == megatron_table().format) return megatron_groups(source);
  return groups_of_values(source, source);
}

std::optional<double> updates_of(const stored::TensorSource& source, const std::string& parameter,
                                 const Settings* settings) {
  auto updates = stored::scalar(source, run_folder::state_name(parameter, "step"));
  if (!updates && settings != nullptr) updates = formats::number_setting(*settings, "step");
  constexpr double kMost = 1e15;
  const bool legal = updates && *updates >= 0 && *updates < kMost;
  return legal ? updates : std::nullopt;
}

}  // namespace am::frameworks
