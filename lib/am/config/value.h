// A TOML document as plain values that remember where they were written.
//
// The TOML library stays behind read_toml: it costs seconds of compile time, and everything else
// here also works on values that came from the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::config {

struct Member;

struct Value {
  enum class Kind { kText, kInteger, kNumber, kBoolean, kDate, kArray, kTable };

  Kind kind = Kind::kTable;
  Span span;  // of the value; of a `[section]`, its header
  std::string text;
  int64_t integer = 0;
  double number = 0.0;
  bool boolean = false;
  std::vector<Value> items;     // of an array
  std::vector<Member> members;  // of a table, in the file's order
  bool is_inline = false;       // a table in braces

  bool is_table() const { return kind == Kind::kTable; }
  const Member* find(std::string_view key) const;
  Member* find(std::string_view key);
};

struct Member {
  std::string key;
  Span key_span;
  Value value;
};

// "text", "an integer", ...: the kind as it reads in a message.
const char* kind_name(Value::Kind kind);

// The document as one table. A syntax error adds "plan.syntax" with its place and gives nothing;
// the parser stops at the first one. `file` is only named.
std::optional<Value> read_toml(std::string_view text, const std::string& file, Diagnostics& found);

}  // namespace am::config
