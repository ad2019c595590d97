#include "am/config/value.h"

#include <algorithm>

namespace am::config {
namespace {

Value empty_value(Value::Kind kind, const Span& span) {
  Value value;
  value.kind = kind;
  value.span = span;
  return value;
}

}  // namespace

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

Value value_of(int64_t value, const Span& span) {
  Value out = empty_value(Value::Kind::kInteger, span);
  out.integer = value;
  return out;
}

Value value_of(double value, const Span& span) {
  Value out = empty_value(Value::Kind::kNumber, span);
  out.number = value;
  return out;
}

Value value_of(bool value, const Span& span) {
  Value out = empty_value(Value::Kind::kBoolean, span);
  out.boolean = value;
  return out;
}

Value value_of(std::string value, const Span& span) {
  Value out = empty_value(Value::Kind::kText, span);
  out.text = std::move(value);
  return out;
}

Value value_of(const std::vector<Value>& items, const Span& span) {
  Value out = empty_value(Value::Kind::kArray, span);
  out.items = items;
  return out;
}

}  // namespace am::config
