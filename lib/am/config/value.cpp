#include "am/config/value.h"

#include <algorithm>

namespace am::config {

const Member* Value::find(std::string_view key) const {
  const auto at =
      std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.key == key; });
  return at == members.end() ? nullptr : &*at;
}

Member* Value::find(std::string_view key) {
  const auto at =
      std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.key == key; });
  return at == members.end() ? nullptr : &*at;
}

const char* kind_name(Value::Kind kind) {
  switch (kind) {
    case Value::Kind::kText:
      return "text";
    case Value::Kind::kInteger:
      return "an integer";
    case Value::Kind::kNumber:
      return "a decimal number";
    case Value::Kind::kBoolean:
      return "a boolean";
    case Value::Kind::kDate:
      return "a date or time";
    case Value::Kind::kArray:
      return "an array";
    case Value::Kind::kTable:
      return "a table";
  }
  return "a value";
}

}  // namespace am::config
