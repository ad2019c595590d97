// Splits the names of optimizer states.
#pragma once

#include <optional>
#include <string_view>

namespace am::frameworks {

// The parts of an optimizer state's name, for example NAME and "exp_avg" of
// "optim.state.NAME.exp_avg" or of "optim.state.exp_avg.NAME".
struct StateName {
  std::string_view parameter;
  std::string_view state;
};

// Returns the parts of the name of an optimizer state; nullopt for any other name. `state_first`:
// the name has the form "optim.state.exp_avg.NAME", which Megatron uses.
std::optional<StateName> split_state(std::string_view name, bool state_first = false);

}  // namespace am::frameworks
