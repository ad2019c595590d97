// Computes the candidates of Tab completion, and hints about the operands and options that may
// follow. Candidates are commands, options and their values, files, and names of parameters and
// modules up to the next dot.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "am/inspect/interpreter.h"

namespace am::inspect {

struct Completion {
  size_t begin = 0;  // position of the completed word in the line
  // Words that may replace the completed word, sorted. A candidate that ends in '.' or '/' can be
  // completed further.
  std::vector<std::string> candidates;
};

// Returns the possible completions of the last word of `line`, the text before the cursor.
Completion complete(std::string_view line, const SessionFacts& facts);

// Returns the names that begin with `word`, sorted. A name with dots behind `word` is cut off after
// the first of these dots. For example, the result for "model.la" contains "model.layers.".
std::set<std::string> by_segment(const std::vector<std::string>& names, std::string_view word);

// Returns a hint about the text that may follow `line`, the text before the cursor. The hint is the
// list of operands and options of the typed command, for example "[NAMES] [--by parameter|layer]",
// or a description of the value that the last option expects. A hint of more than `columns` columns
// is shortened or omitted.
std::string hint(std::string_view line, int columns);

// Returns the longest common prefix of all candidates.
std::string common_prefix(const std::vector<std::string>& candidates);

}  // namespace am::inspect
