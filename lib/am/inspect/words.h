// Splits input into commands, and a command into words.
//
// Commands end at a newline or a `;`. Words end at a space; quotes keep spaces, `;` and line
// breaks: 'literally', "with \" \\ \n \t". Outside of single quotes a backslash escapes the next
// character, and a backslash before a line break joins the lines. A `#` where a word could begin
// starts a comment.
//
//   split_commands("ls; show 'a b'\n", true).commands;  // {"ls", "show 'a b'"}
//   split_words("show 'a b'");                          // {"show", "a b"}
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace am::inspect {

struct SplitCommands {
  std::vector<std::string> commands;  // without empty ones and comments
  std::string rest;                   // unfinished command; prepend it to the next call's text
  bool open_quote = false;            // `rest` ends inside quotes
};

// With `at_end` the last command needs no newline; with an open quote it stays in `rest`.
SplitCommands split_commands(std::string_view text, bool at_end);

// Incremental splitter for input that arrives in pieces; scans each character once.
//
//   CommandReader reader;
//   for (piece : pieces) for (command : reader.add(piece)) run(command);
//   for (command : reader.finish()) run(command);
class CommandReader {
 public:
  CommandReader();
  ~CommandReader();

  // A longer command throws Error(kUsage), since unbounded input cannot be a command.
  static constexpr size_t kLongest = size_t{16} << 20;

  // Returns the commands that end in this piece.
  std::vector<std::string> add(std::string_view piece);
  // Returns the last command, which needs no newline; nothing if its quote is open.
  std::vector<std::string> finish();
  // The unfinished command.
  const std::string& rest() const;
  bool open_quote() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Splits a command at ` | ` outside of quotes; one element if there is none.
std::vector<std::string> split_pipes(std::string_view command);

// Throws Error(kUsage) for an unclosed quote. `quoted`, if given, receives for each word whether a
// part of it was quoted.
std::vector<std::string> split_words(std::string_view command, std::vector<bool>* quoted = nullptr);

}  // namespace am::inspect
