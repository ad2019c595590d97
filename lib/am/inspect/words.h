// From what a user typed to commands, and from a command to its words.
//
// Commands end at a newline or a `;`. Words end at a space; quotes keep spaces, `;` and line
// breaks: 'as it stands', "with \" \\ \n \t". Outside of single quotes a backslash takes the next
// character as it is. A `#` where a word could begin starts a comment.
//
//   split_commands("ls; show 'a b'\n", true).commands   // {"ls", "show 'a b'"}
//   split_words("show 'a b'")                           // {"show", "a b"}
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace am::inspect {

struct SplitCommands {
  std::vector<std::string> commands;  // without empty ones and without comments
  std::string rest;                   // the command that is not finished; for the next call
  bool open_quote = false;            // `rest` ends inside quotes
};

// With `at_end` the last command needs no newline; an open quote then stays in `rest`.
SplitCommands split_commands(std::string_view text, bool at_end);

// Throws Error(kUsage) for a quote that is not closed.
std::vector<std::string> split_words(std::string_view command);

}  // namespace am::inspect
