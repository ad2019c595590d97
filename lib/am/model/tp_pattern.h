// Patterns that select modules of a model by name, as in tensor-parallel plans.
#pragma once

#include <string_view>

namespace am::model {

// Whether the pattern matches the module's name. A pattern and a name consist of components
// separated by dots. They match only if they have the same number of components. Each component of
// the pattern is a glob (glob_match) that must match the name's component at the same position.
bool matches_module(std::string_view pattern, std::string_view module);

}  // namespace am::model
