// Command lines as text: words as a shell splits them, and flags with their values. What is typed
// at am-repl has another grammar (am/inspect/words.h): there ";" ends a command, and "\n" in double
// quotes is a line break.
//
//   read_flags("torchrun --nproc-per-node 8 x.py --lr 1e-4 --bf16", "run.sh", {}, found);
//   // { nproc-per-node = 8, lr = 1e-4, bf16 = true }
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/base/diagnostic.h"
#include "am/config/value.h"

namespace am::exchange {

struct FlagStyle {
  char dash = '-';  // '-': a_b is written a-b; '_': the other way round
  // "--section.key": a table "section" that holds "key"; a word "section:choice" is a command of
  // its own, kept under the key "section:".
  bool nested = false;
};

// The flags of one command, in their order; of one that is repeated the last counts. A flag has
// the words behind it as its value: none means true, several a list. "--no-x" is a name like any
// other. Words that belong to no flag (the program, a script) are left out; quotes, backslashes and
// comments are a shell's. What a shell would expand or run is "exchange.syntax".
std::optional<config::Value> read_flags(std::string_view text, const std::string& file,
                                        const FlagStyle& style, Diagnostics& found);

// As one word of a shell's command line.
std::string shell_word(const std::string& text);

}  // namespace am::exchange
