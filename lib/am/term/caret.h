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

// Maximum number of diagnostics that are shown; the others are only counted.
inline constexpr size_t kMostShown = 100;

// Returns the text of the diagnostics, each with a newline at its end. A diagnostic without a line
// is printed as `FILE: error[RULE]: ...`, one without a file as `error[RULE]: ...`. Control
// characters from the file are replaced, and very long lines are shortened.
std::string render(const Diagnostic& diagnostic, const Style& style);
std::string render(const Diagnostics& diagnostics, const Style& style);

// Returns the numbers of errors and warnings, for example "2 errors, 1 warning" or "no errors".
// Notes are not counted.
std::string summary(const Diagnostics& diagnostics);

}  // namespace am::term
