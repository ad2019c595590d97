// Tab completion: commands, their options and option values, parameters and modules by dotted
// segment, files. Also hints about what may follow the typed text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/inspect/interpreter.h"

namespace am::inspect {

struct Completion {
  size_t begin = 0;                     // start of the word in the line
  std::vector<std::string> candidates;  // whole words, sorted; '.' or '/' at the end: extensible
};

// `line`: the text before the cursor.
Completion complete(std::string_view line, const SessionFacts& facts);

// Returns the operands and options of the command that `line` begins, or a description of the value
// that is expected next: "[NAMES] [--by parameter|layer]". Shortened, or empty, if it exceeds
// `columns`.
std::string hint(std::string_view line, int columns);

// Returns the longest common prefix of all candidates.
std::string common_prefix(const std::vector<std::string>& candidates);

}  // namespace am::inspect
