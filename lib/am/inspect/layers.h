// Maps a parameter to its layer, for `--by layer`.
#pragma once

#include <string>
#include <string_view>

namespace am::inspect {

// Returns the name up to the first number ("model.layers.3", "optim.state.model.layers.3"); without
// a number, the module that contains it ("model.norm"), or the name itself.
std::string layer_of(std::string_view name);

}  // namespace am::inspect
