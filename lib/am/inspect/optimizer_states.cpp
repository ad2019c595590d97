#include "am/inspect/optimizer_states.h"

#include <algorithm>

#include "am/base/text.h"

namespace am::inspect {
namespace {

constexpr std::string_view kStatePrefix = "optim.state.";

// Returns a setting from param_groups that are stored with one named value per setting. The name
// contains the parameter or the index of the group, for example "optim.param_groups.0.lr". The
// files do not record which of several numbered groups contains the parameter. Returns null if the
// setting is not stored, or if its values in the numbered groups differ.
Json group_value(const Session& session, const std::string& parameter, const char* key) {
  const TensorCatalog& view = session.view();
  for (const char* prefix : {"optim.param_groups.", "optimizer.param_groups."}) {
    const auto value = [&](const std::string& group) {
      return view.value(cat(prefix, group, ".", key));
    };
    if (Json own = value(parameter); !own.is_null()) return own;
    Json first = value("0");
    for (int64_t group = 1; !first.is_null(); ++group) {
      const Json next = value(cat(group));
      if (next.is_null()) return first;
      if (next != first) return nullptr;
    }
  }
  return nullptr;
}

// Returns a setting from param_groups that are stored as a list of dicts. Each dict lists the names
// of its parameters under "params". The setting comes from the group that contains `parameter`, or
// from the only group. Returns null if there is no such group, or if this group lacks the setting.
Json listed_group_value(const Session& session, const std::string& parameter, const char* key) {
  for (const char* name : {"optim.param_groups", "optimizer.param_groups"}) {
    const Json groups = session.view().value(name);
    if (!groups.is_array()) continue;
    for (const Json& group : groups) {
      if (!group.is_object() || !group.contains(key)) continue;
      const Json names = group.value("params", Json::array());
      const bool is_here = std::find(names.begin(), names.end(), Json(parameter)) != names.end();
      if (is_here || groups.size() == 1) return group[key];
    }
  }
  return nullptr;
}

Json setting(const Session& session, const std::string& parameter, const char* key) {
  Json value = group_value(session, parameter, key);
  return value.is_null() ? listed_group_value(session, parameter, key) : value;
}

}  // namespace

std::vector<const HeldParameter*> states_of(const Session& session,
                                            const HeldParameter& parameter) {
  const std::string prefix = cat(kStatePrefix, parameter.name, ".");
  std::vector<const HeldParameter*> found;
  for (const HeldParameter& state : session.view().states()) {
    if (starts_with(state.name, prefix)) found.push_back(&state);
  }
  return found;
}

std::vector<const HeldParameter*> states_of(const Session& session, std::string_view pattern) {
  std::vector<const HeldParameter*> found;
  for (const HeldParameter* parameter : session.matching(pattern)) {
    for (const HeldParameter* state : states_of(session, *parameter)) found.push_back(state);
  }
  return found;
}

std::string state_kind(const HeldParameter& state, const HeldParameter& parameter) {
  return state.name.substr(kStatePrefix.size() + parameter.name.size() + 1);
}

std::optional<AdamSettings> adam_settings(const Session& session, const std::string& parameter) {
  const Json lr = setting(session, parameter, "lr");
  if (!lr.is_number()) return std::nullopt;
  AdamSettings settings;
  settings.lr = lr.get<double>();
  const Json eps = setting(session, parameter, "eps");
  if (eps.is_number()) settings.eps = eps.get<double>();
  const Json betas = setting(session, parameter, "betas");
  if (betas.is_array() && betas.size() == 2 && betas[0].is_number() && betas[1].is_number()) {
    settings.beta1 = betas[0].get<double>();
    settings.beta2 = betas[1].get<double>();
  }
  return settings;
}

}  // namespace am::inspect
