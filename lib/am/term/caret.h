// Formats diagnostics like a compiler:
//
//   llama.toml:7:11: error[tp.heads]: 3 does not divide num_key_value_heads = 8
//       7 | tp_size = 3
//         |           ^
//   help: legal: 1, 2, 4 or 8
#pragma once

#include <string>

#include "am/base/diagnostic.h"
#include "am/term/style.h"

namespace am::term {

// Maximum number of diagnostics that render() shows; it only counts the others.
inline constexpr size_t kMostShown = 100;

// Return the text of one diagnostic, or of the first kMostShown diagnostics and the number of the
// others. The text ends with a newline. A diagnostic begins with "FILE: error[RULE]" if it has no
// line number, and with "error[RULE]" if it has no file. Control characters in messages, file names
// and source lines are replaced, and very long lines are shortened.
std::string render(const Diagnostic& diagnostic, const Style& style);
std::string render(const Diagnostics& diagnostics, const Style& style);

// Returns the numbers of errors and warnings, for example "2 errors, 1 warning" or "no errors".
// Notes are not counted.
std::string summary(const Diagnostics& diagnostics);

}  // namespace am::term
