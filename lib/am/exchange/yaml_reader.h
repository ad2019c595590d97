// YAML files as plain values that remember where they were written. libyaml stays behind this
// header.
//
//   read_yaml("a:\n  - 1\n  - b: [x, 'y']\n", "a.yaml", found);
//
// Words become values as PyYAML makes them (yes and on are true; ~ and null leave the key out), and
// 1e-4 is a number. Anchors, aliases and merges (<<) are followed as far as they expand to a
// configuration's size. Tags, keys that are not text and several documents are errors that say so.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/base/diagnostic.h"
#include "am/config/value.h"

namespace am::exchange {

// The document as one table; an empty one is an empty table. The first error is "exchange.syntax"
// with its place. More than 64 levels are an error.
std::optional<config::Value> read_yaml(std::string_view text, const std::string& file,
                                       Diagnostics& found);

// A plain word as a value: integer, number, boolean or text; nothing for null.
std::optional<config::Value> plain_value(std::string_view word, const Span& span);

}  // namespace am::exchange
