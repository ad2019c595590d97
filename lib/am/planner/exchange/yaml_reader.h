// The part of YAML that configuration files are written in: block mappings and lists, plain and
// quoted scalars on one line, brackets and braces (so JSON too), comments.
//
//   read_yaml("a:\n  - 1\n  - b: [x, 'y']\n", "a.yaml", found);
//
// Anchors, aliases, tags, text blocks (| and >), scalars over several lines, several documents and
// tabs as indentation are errors that say so: what is read is never guessed. Words become values
// as PyYAML makes them (yes and on are true; ~ and null leave the key out), and 1e-4 is a number.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/base/diagnostic.h"
#include "am/config/value.h"

namespace am::planner {

// The document as one table; an empty one is an empty table. The first error is "exchange.syntax"
// with its place. More than 64 levels are an error.
std::optional<config::Value> read_yaml(std::string_view text, const std::string& file,
                                       Diagnostics& found);

// A plain word as a value: integer, number, boolean or text; nothing for null.
std::optional<config::Value> plain_value(std::string_view word, const Span& span);

}  // namespace am::planner
