// Parses command lines of other frameworks: splits them into words as a shell does, and finds the
// flags and their values. The input of am-repl has another grammar (am/inspect/words.h): there ";"
// ends a command, and "\n" in double quotes is a line break.
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
  char dash = '-';  // '-': a flag a_b is stored as a-b; '_': a flag a-b is stored as a_b
  // A flag "--section.key" is stored as `key` in a table "section". A word "section:choice" is a
  // subcommand; "choice" is stored under the key "section:".
  bool nested = false;
};

// Returns the flags of one command in their order. If a flag is repeated, its last value counts.
// The words after a flag are its value: no word means true, several words are a list. "--no-x" is a
// flag like any other. Words that belong to no flag, such as the program and a script, are skipped.
// Quotes, backslashes and comments follow the shell's rules. Expansions and substitutions, which
// only a shell can do, are reported as errors "exchange.syntax".
std::optional<config::Value> read_flags(std::string_view text, const std::string& file,
                                        const FlagStyle& style, Diagnostics& found);

// Quotes a text as one word of a shell command line.
std::string shell_word(const std::string& text);

}  // namespace am::frameworks
