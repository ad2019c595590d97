// Patterns of the modules of a model, as in tensor-parallel plans.
#pragma once

#include <string_view>

namespace am::model {

// Whether the pattern matches the module's name. Both consist of components separated by dots. Each
// component of the pattern must be `*` or equal to the same component of the name.
bool matches_module(std::string_view pattern, std::string_view module);

}  // namespace am::model
