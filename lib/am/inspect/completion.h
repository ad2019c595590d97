// What Tab offers: commands, their options, parameters and modules by dotted segment, files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/inspect/interpreter.h"

namespace am::inspect {

struct Completion {
  size_t begin = 0;                     // where in the line the word starts
  std::vector<std::string> candidates;  // whole words, sorted; one that ends in '.' or '/' goes on
};

// `line` is what stands before the cursor.
Completion complete(std::string_view line, const SessionFacts& facts);

// The longest text that all candidates begin with.
std::string common_prefix(const std::vector<std::string>& candidates);

}  // namespace am::inspect
