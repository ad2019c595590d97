// Patterns of the modules of a model, as in tensor-parallel plans.
#pragma once

#include <string_view>

namespace am::model {

// Whether the pattern matches the module's name. Both consist of components separated by dots, and
// must have equally many. Each component of the pattern is a glob (glob_match) that must match the
// component of the name at the same position.
bool matches_module(std::string_view pattern, std::string_view module);

}  // namespace am::model
