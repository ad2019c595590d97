// Determines the layer of a parameter from its name, for the option `--by layer` of commands.
#pragma once

#include <string>
#include <string_view>

namespace am::inspect {

// Returns the name up to and including the first number, for example "model.layers.3". If the name
// contains no number, returns the module of the parameter, for example "model.norm", or the whole
// name if it has no dot.
std::string layer_of(std::string_view name);

}  // namespace am::inspect
