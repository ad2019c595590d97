// Writes a JSON object as YAML that PyYAML reads as the same values.
//
//   write_yaml({{"a", {1, 2}}, {"b", {{"c", "no"}}}});      // a: [1, 2]\nb:\n  c: "no"\n
#pragma once

#include <string>

#include "am/base/json.h"

namespace am::config {

// Returns a JSON object as YAML: one key per line, with indentation for inner objects. Lists are
// written in brackets, except that a list of lists is written with one inner list per line. Members
// with null are written as null.
std::string write_yaml(const Json& object);

}  // namespace am::config
