// Computes the candidates of Tab completion (commands, options and their values, files, and names
// of parameters and modules up to the next dot), and hints about what may follow the typed text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/inspect/interpreter.h"

namespace am::inspect {

struct Completion {
  size_t begin = 0;  // position in the line of the word that is completed
  // Words that may replace it, sorted. A word that ends in '.' or '/' can be completed further.
  std::vector<std::string> candidates;
};

// Returns how the last word of `line`, the text before the cursor, can be completed.
Completion complete(std::string_view line, const SessionFacts& facts);

// Returns a hint about what may follow `line`, the text before the cursor: the operands and options
// of its command, for example "[NAMES] [--by parameter|layer]", or a description of the value that
// the last option expects. A hint of more than `columns` columns is shortened or left out.
std::string hint(std::string_view line, int columns);

// Returns the longest common prefix of all candidates.
std::string common_prefix(const std::vector<std::string>& candidates);

}  // namespace am::inspect
