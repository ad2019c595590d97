// Values of a TOML document, each with its location in the source text.
//
// Only read_toml() uses the TOML library, because including the library costs seconds of compile
// time. All other code uses Value. A Value may also come from the command line or from YAML.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::config {

struct Member;

// Largest number of levels of nesting in a YAML document, and of parts in a dotted TOML key. The
// limit exists because the functions that process values are recursive.
inline constexpr int kDeepest = 64;

struct Value {
  enum class Kind { kText, kInteger, kNumber, kBoolean, kDate, kArray, kTable };

  Kind kind = Kind::kTable;
  Span span;  // location of the value; for a `[section]`, of its header
  std::string text;
  int64_t integer = 0;
  double number = 0.0;
  bool boolean = false;
  std::vector<Value> items;     // items of a kArray
  std::vector<Member> members;  // members of a kTable, in the file's order
  bool is_inline = false;       // whether the table is written in braces

  bool is_table() const { return kind == Kind::kTable; }
  const Member* find(std::string_view key) const;
  Member* find(std::string_view key);
};

struct Member {
  std::string key;
  Span key_span;
  Value value;
};

// Returns the kind's name for messages, for example "text" or "an integer".
const char* kind_name(Value::Kind kind);

// Return a Value with this content. `span`: location of the text from which the content was
// derived.
Value value_of(int64_t value, const Span& span);
Value value_of(double value, const Span& span);
Value value_of(bool value, const Span& span);
Value value_of(std::string value, const Span& span);
Value value_of(const std::vector<Value>& items, const Span& span);

// Parses a TOML document into one table. At the first syntax error, adds an error "plan.syntax"
// with its location and returns nothing. `file` is used in messages only.
std::optional<Value> read_toml(std::string_view text, const std::string& file, Diagnostics& found);

}  // namespace am::config
