#include "am/frameworks/megatron/optimizer_groups.h"

#include <algorithm>
#include <array>
#include <utility>

#include "am/base/text.h"
#include "am/formats/dcp_metadata.h"
#include "am/frameworks/trainer_facts.h"

namespace am::frameworks {

namespace {

using formats::PickleKind;
using formats::PickleValue;

constexpr size_t kDeepestGroups = 4;
// The settings to read: Megatron's name and torch.optim's name of each setting.
constexpr auto kSettings = std::to_array<std::pair<std::string_view, const char*>>({
    {"lr", "lr"},
    {"max_lr", "initial_lr"},
    {"betas", "betas"},
    {"eps", "eps"},
    {"weight_decay", "weight_decay"},
    {"step", "step"},
});

struct MegatronGroup {
  formats::Settings settings;
  bool decays = true;
  bool experts = false;
};

double multiplier(const PickleValue& group, const char* key, const char* of_nemo) {
  for (const char* each : {key, of_nemo}) {
    const PickleValue* value = group.find(each);
    const auto number = value == nullptr ? std::nullopt : formats::number_of(*value);
    if (number) return *number;
  }
  return 1.0;
}

// Appends the parameter groups in `state`, the state of an optimizer, to `found`. Megatron stores
// the states of several chained optimizers in a dict with the keys 0, 1, ..
void collect(const PickleValue& state, size_t depth, std::vector<MegatronGroup>& found) {
  if (depth == kDeepestGroups || !state.is(PickleKind::kDict)) return;
  if (const PickleValue* groups = state.find("param_groups")) {
    for (const PickleValue& group : groups->items()) {
      if (!group.is(PickleKind::kDict)) continue;
      MegatronGroup& added = found.emplace_back();
      for (const auto& [key, name] : kSettings) {
        const PickleValue* value = group.find(key);
        const auto setting = value == nullptr ? std::nullopt : formats::setting_value(*value);
        if (setting) added.settings.emplace_back(name, *setting);
      }
      const PickleValue* experts = group.find("is_expert_parallel");
      added.experts = experts != nullptr && experts->truth();
      added.decays = multiplier(group, "wd_mult", "pre_wd_mult") != 0.0;
    }
    return;
  }
  const auto items = state.items();
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const bool optimizer = items[i].integer() || items[i].text() == "optimizer";
    if (optimizer) collect(items[i + 1], depth + 1, found);
  }
}

// Keeps the groups for which `fits` is true. If `fits` is true for none of them, keeps all groups.
template <typename Fits>
void narrow(std::vector<const MegatronGroup*>& groups, const Fits& fits) {
  std::vector<const MegatronGroup*> kept;
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(kept), fits);
  if (!kept.empty()) groups = std::move(kept);
}

}  // namespace

bool is_of_experts(std::string_view parameter) {
  return parameter.find(".experts.") != std::string_view::npos;
}

bool is_vector(std::string_view parameter, const Shape& shape) {
  return shape.size() == 1 || ends_with(parameter, ".bias");
}

std::vector<SettingsGroup> megatron_groups(const stored::TensorSource& source) {
  std::vector<MegatronGroup> found;
  const auto metadata = formats::read_dcp_metadata(source.path() / formats::kDcpMetadataFile);
  visit_megatron_common(source.path(), metadata, [&](const PickleValue& common) {
    if (const PickleValue* optimizer = common.find("optimizer")) collect(*optimizer, 0, found);
  });
  std::vector<SettingsGroup> groups;
  for (const stored::StoredTensor& parameter : source.tensors()) {
    std::vector<const MegatronGroup*> candidates;
    for (const MegatronGroup& group : found) candidates.push_back(&group);
    const bool expert = is_of_experts(parameter.name);
    const bool vector = is_vector(parameter.name, parameter.shape);
    narrow(candidates, [&](const MegatronGroup* group) { return group->experts == expert; });
    narrow(candidates, [&](const MegatronGroup* group) { return group->decays != vector; });
    const bool one = !candidates.empty() &&
                     std::all_of(candidates.begin(), candidates.end(), [&](const auto* group) {
                       return group->settings == candidates.front()->settings;
                     });
    if (!one) continue;
    add_to_groups(groups, candidates.front()->settings, parameter.name);
  }
  return groups;
}

}  // namespace am::frameworks
