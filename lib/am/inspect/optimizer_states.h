// Optimizer states of parameters, and the settings of the last step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "am/inspect/session.h"

namespace am::inspect {

// Returns "optim.state.NAME.exp_avg" etc. for all parameters that `pattern` matches. Throws
// Error(kUsage) like Session::matching.
std::vector<const HeldParameter*> states_of(const Session& session, std::string_view pattern);
// Returns the states of one parameter; may be empty.
std::vector<const HeldParameter*> states_of(const Session& session, const HeldParameter& parameter);
// Returns the kind of a state of this parameter: "exp_avg".
std::string state_kind(const HeldParameter& state, const HeldParameter& parameter);

// Hyperparameters of Adam's step.
struct AdamSettings {
  double lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};
// Reads the settings from the optimizer's param_groups as saved by PyTorch: from the group with
// this parameter, otherwise from the first group.
std::optional<AdamSettings> adam_settings(const Session& session, const std::string& parameter);

}  // namespace am::inspect
