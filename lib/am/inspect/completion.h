// What Tab offers: commands, their options and the values of these, parameters and modules by
// dotted segment, files. And what may follow, as a hint beside what is typed.
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

// The operands and options of the command that `line` begins, or what the value is that it waits
// for: "[NAMES] [--by parameter|layer]". Less of it, or nothing, where it has more than so many
// columns.
std::string hint(std::string_view line, int columns);

// The longest text that all candidates begin with.
std::string common_prefix(const std::vector<std::string>& candidates);

}  // namespace am::inspect
