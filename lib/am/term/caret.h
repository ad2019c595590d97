// Diagnostics as a compiler prints them:
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

// Of more diagnostics than these the rest is only counted: nobody reads twenty thousand.
inline constexpr size_t kMostShown = 100;

// Each ends with a newline. A span without a line prints `FILE: error[RULE]: ...`, one without a
// file only `error[RULE]: ...`. Control characters of the file are not passed on, and of a very
// long word or line only both ends are.
std::string render(const Diagnostic& diagnostic, const Style& style);
std::string render(const Diagnostics& diagnostics, const Style& style);

// "2 errors, 1 warning"; notes do not count; "no errors" when there is nothing.
std::string summary(const Diagnostics& diagnostics);

}  // namespace am::term
