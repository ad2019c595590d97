// Which layer a parameter is of: what `--by layer` folds.
#pragma once

#include <string>
#include <string_view>

namespace am::inspect {

// Its name up to the first number ("model.layers.3", "optim.state.model.layers.3"); where there is
// none the module that it is in ("model.norm"), or itself.
std::string layer_of(std::string_view name);

}  // namespace am::inspect
