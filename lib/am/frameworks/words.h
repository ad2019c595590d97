// Parses command lines: words as a shell splits them, and flags with their values. am-repl's input
// has another grammar (am/inspect/words.h), in which ";" ends a command and "\n" in double quotes
// is a line break.
//
//   read_flags("torchrun --nproc-per-node 8 x.py --lr 1e-4 --bf16", "run.sh", {}, found);
//   // { nproc-per-node = 8, lr = 1e-4, bf16 = true }
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/base/diagnostic.h"
#include "am/config/value.h"

namespace am::frameworks {

struct FlagStyle {
  char dash = '-';  // '-': converts a_b to a-b; '_': the reverse
  // Converts "--section.key" to a table "section" with `key`; a word "section:choice" is a
  // subcommand, stored under the key "section:".
  bool nested = false;
};

// Returns the flags of one command in order; of a repeated flag the last counts. The words behind a
// flag are its value: no word means true, several words a list. "--no-x" is not treated specially.
// Words outside of flags (the program, a script) are skipped; quotes, backslashes and comments
// follow the shell's rules. Shell expansions and substitutions are reported as "exchange.syntax".
std::optional<config::Value> read_flags(std::string_view text, const std::string& file,
                                        const FlagStyle& style, Diagnostics& found);

// Quotes a text as one word of a shell command line.
std::string shell_word(const std::string& text);

}  // namespace am::frameworks
