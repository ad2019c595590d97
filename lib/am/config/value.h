// A TOML document as plain values with their positions in the source.
//
// Only read_toml uses the TOML library, which costs seconds of compile time. All other code reads
// these values, which may come from the command line too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::config {

struct Member;

// Limit of nesting in a document, because code that walks values is recursive.
inline constexpr int kDeepest = 64;

struct Value {
  enum class Kind { kText, kInteger, kNumber, kBoolean, kDate, kArray, kTable };

  Kind kind = Kind::kTable;
  Span span;  // span of the value; for a `[section]`, its header
  std::string text;
  int64_t integer = 0;
  double number = 0.0;
  bool boolean = false;
  std::vector<Value> items;     // for kArray
  std::vector<Member> members;  // for kTable, in the file's order
  bool is_inline = false;       // table in braces

  bool is_table() const { return kind == Kind::kTable; }
  const Member* find(std::string_view key) const;
  Member* find(std::string_view key);
};

struct Member {
  std::string key;
  Span key_span;
  Value value;
};

// Name of the kind in messages: "text", "an integer", ...
const char* kind_name(Value::Kind kind);

// Return values that are derived from a file's; `span` is the location in the file.
Value value_of(int64_t value, const Span& span);
Value value_of(double value, const Span& span);
Value value_of(bool value, const Span& span);
Value value_of(std::string value, const Span& span);
Value value_of(const std::vector<Value>& items, const Span& span);

// Parses a document into one table. A syntax error adds "plan.syntax" with its place and returns
// nothing; parsing stops at the first one. `file` is used in messages only.
std::optional<Value> read_toml(std::string_view text, const std::string& file, Diagnostics& found);

}  // namespace am::config
