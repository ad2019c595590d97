// Parses command lines of other frameworks: splits them into words as a shell does, and finds flags
// and their values. am/inspect/words.h splits am-repl's input, whose grammar differs: ";" ends a
// command, and "\n" in double quotes is a line break.
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
  char dash = '-';  // replaces `-` and `_` in the names of flags, so that a-b equals a_b
  // true: a flag "--section.key" is stored as `key` in a table "section". For a subcommand, a word
  // "section:choice", the text "choice" is stored under the key "section:".
  bool nested = false;
};

// Returns the flags of one command, in order. If a flag is repeated, its last value is used. The
// value of a flag is the text behind its "=". A flag without "=" has the word after the flag as its
// value, a list if several words follow, and true if no word follows. "--no-x" is the flag "no-x".
// Words that belong to no flag, for example the program and a script, are skipped.
//
// Quotes, backslashes and comments are read as in a shell. A line break separates words, but does
// not end the command. Variables, substitutions, redirections and a second command are errors
// "exchange.syntax"; the result is then nullopt.
std::optional<config::Value> read_flags(std::string_view text, const std::string& file,
                                        const FlagStyle& style, Diagnostics& found);

// Returns the text as one word of a shell command line, in quotes if necessary.
std::string shell_word(const std::string& text);

}  // namespace am::frameworks
