// Megatron-LM's arguments that describe the model, whose config.json has the same values.
#pragma once

#include <vector>

#include "am/frameworks/exchange.h"
#include "am/frameworks/source.h"

namespace am::frameworks {

// Returns the sizes of the model in the arguments, for compare_model().
std::vector<Geometry> megatron_geometry(const Source& source);

// Returns the arguments that the import did not use, each with its name, which begins with "--",
// and the reason.
std::vector<Ignored> megatron_ignored(const Source& source);

}  // namespace am::frameworks
