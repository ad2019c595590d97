// Writes JSON values as block YAML that PyYAML reads as the same values.
//
//   write_yaml({{"a", {1, 2}}, {"b", {{"c", "no"}}}});      // a: [1, 2]\nb:\n  c: "no"\n
#pragma once

#include <string>

#include "am/base/json.h"

namespace am::config {

// Writes an object; null members are written as null. Lists are in brackets; a list of lists has
// one inner list per line.
std::string write_yaml(const Json& object);

}  // namespace am::config
