// JSON values as block YAML that PyYAML reads as the same values.
//
//   write_yaml({{"a", {1, 2}}, {"b", {{"c", "no"}}}});      // a: [1, 2]\nb:\n  c: "no"\n
#pragma once

#include <string>

#include "am/base/json.h"

namespace am::exchange {

// An object; members that are null are written as null. Lists stand in brackets, a list of lists
// with one of them a line.
std::string write_yaml(const Json& object);

}  // namespace am::exchange
