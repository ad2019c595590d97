// Finds the optimizer states of parameters, and the optimizer's stored settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "am/inspect/session.h"

namespace am::inspect {

// Returns the optimizer states, for example "optim.state.NAME.exp_avg", of all parameters that
// `pattern` matches. Throws Error(kUsage) if no parameter matches, as Session::matching() does.
std::vector<const HeldParameter*> states_of(const Session& session, std::string_view pattern);
// Returns the optimizer states of one parameter; may be empty.
std::vector<const HeldParameter*> states_of(const Session& session, const HeldParameter& parameter);
// Returns the kind of an optimizer state, for example "exp_avg". `state` must belong to
// `parameter`.
std::string state_kind(const HeldParameter& state, const HeldParameter& parameter);

// Hyperparameters of Adam or AdamW.
struct AdamSettings {
  double lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};
// Returns the settings for this parameter from the param_groups that PyTorch's optimizer has saved.
// Each setting comes from the first of these places that stores it:
//   1. the values under the parameter's name,
//   2. numbered groups, if the setting is equal in all of them,
//   3. a list of groups: the group that contains the parameter, or the only group.
// Settings that are not stored keep the defaults of AdamSettings. Returns nullopt if no learning
// rate is stored.
std::optional<AdamSettings> adam_settings(const Session& session, const std::string& parameter);

}  // namespace am::inspect
