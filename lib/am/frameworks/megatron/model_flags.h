// Megatron-LM's arguments that describe the model. The model's config.json contains these values,
// too.
#pragma once

#include <vector>

#include "am/frameworks/exchange.h"
#include "am/frameworks/source.h"

namespace am::frameworks {

// Returns the model's sizes that the arguments set, for compare_model().
std::vector<Geometry> megatron_geometry(const Source& source);

// Returns the arguments that the import did not use, each with the reason. The arguments' names
// begin with "--".
std::vector<Ignored> megatron_ignored(const Source& source);

}  // namespace am::frameworks
