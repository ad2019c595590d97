// The optimizer's states beside their parameters, and what moved a parameter in its last step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "am/inspect/session.h"

namespace am::inspect {

// "optim.state.NAME.exp_avg" and its like, of all parameters that `pattern` names. Throws
// Error(kUsage) as Session::matching does.
std::vector<const HeldParameter*> states_of(const Session& session, std::string_view pattern);
// Of one parameter; empty where there are none.
std::vector<const HeldParameter*> states_of(const Session& session, const HeldParameter& parameter);
// "exp_avg" of a state of this parameter.
std::string state_kind(const HeldParameter& state, const HeldParameter& parameter);

// What Adam's step needs beside its moments.
struct AdamSettings {
  double lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};
// From the optimizer's groups as PyTorch saves them, of this parameter or else of the first group.
std::optional<AdamSettings> adam_settings(const Session& session, const std::string& parameter);

}  // namespace am::inspect
