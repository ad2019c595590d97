// Reads YAML text as a Value with locations (value.h). Only yaml_reader.cpp uses libyaml.
//
//   read_yaml("a:\n  - 1\n  - b: [x, 'y']\n", "a.yaml", found);
//
// Most unquoted words are converted as in PyYAML: yes and on are true, and a key with ~ or null is
// omitted. Unlike in PyYAML, 1e-4 is a number, a date is a text, and 010 is ten. Anchors, aliases
// and merges (<<) are resolved, up to a limit of copied values. Tags, several documents, and keys
// that are lists or mappings are errors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/base/diagnostic.h"
#include "am/config/value.h"

namespace am::config {

// Returns the document as a table; an empty document is an empty table. At the first error, adds an
// error "exchange.syntax" with its location and returns nothing. More than kDeepest levels of
// nesting are an error.
std::optional<Value> read_yaml(std::string_view text, const std::string& file, Diagnostics& found);

// Converts an unquoted word to an integer, a number, a boolean or a text; returns nothing for null.
std::optional<Value> plain_value(std::string_view word, const Span& span);

}  // namespace am::config
