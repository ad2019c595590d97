// Finds the layer of a parameter, for the option `--by layer` of commands.
#pragma once

#include <string>
#include <string_view>

namespace am::inspect {

// Returns the name up to the first number, for example "model.layers.3". If it contains no number,
// returns the module of the parameter, for example "model.norm", or the name itself if it has no
// dot.
std::string layer_of(std::string_view name);

}  // namespace am::inspect
