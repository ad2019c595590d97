// The sections and keys of a plan, found line by line and without a TOML parser, because a document
// that is being typed is often not valid TOML.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "document.h"

namespace am_plan::lsp {

// Returns the offset of the first character at or after `from` that is one of `wanted` and outside
// of quotes; kNone if there is none.
size_t find_outside_quotes(std::string_view text, std::string_view wanted, size_t from = 0);
// Returns the offset of the opening quote of a string that the text does not close; kNone if all
// strings are closed.
size_t open_quote(std::string_view text);

// Whether the text is a key or a section's name without quotes; dots are allowed.
bool is_bare_name(std::string_view text);

// The parts of a line `[section]` or `key = value`. `value` ends before a comment, and is empty if
// no value is written yet.
struct LineParts {
  enum class Kind { kHeader, kEntry, kOther };
  Kind kind = Kind::kOther;
  Bytes name;
  Bytes value;
};
LineParts parts_of(std::string_view line);

struct Header {
  int line = 0;
  std::string name;  // for example "mesh"
};

// A line that sets a key. `section` is the part of the key's full name before the first dot, and
// `key` the rest, whether the line is in a section or has a dotted key.
struct Entry {
  int line = 0;
  std::string section;
  std::string key;
  Bytes value;
};

struct Outline {
  std::vector<Header> headers;
  std::vector<Entry> entries;
  std::string strategy;  // value of strategy.name if it is legal, otherwise the default

  // Returns the name of the section that contains the line; empty above the first header.
  std::string section_at(int line) const;
  // Returns the header with this name; null if there is none.
  const Header* find_header(std::string_view name) const;
  // Returns the line that sets the key; null if there is none.
  const Entry* find_entry(std::string_view section, std::string_view key) const;
};
Outline outline_of(const Document& document);

}  // namespace am_plan::lsp
