// Splits input into commands, and a command into words.
//
// Commands end at a newline or a `;`, and words end at a space, unless these are in quotes. In
// 'single quotes' all characters are literal; in "double quotes" there are the escapes \" \\ \n \t.
// Outside of single quotes a backslash escapes the next character, and a backslash before a line
// break joins the lines. A `#` where a word could begin starts a comment.
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
  std::vector<std::string> commands;  // complete commands, without comments; none is empty
  std::string rest;                   // unfinished command, to be prepended to the next text
  bool open_quote = false;            // the text ends inside quotes, so that `rest` is unfinished
};

// Splits the text into commands. With `at_end` set, the last command needs no newline to be
// complete; but if its quote is open, it stays in `rest`.
SplitCommands split_commands(std::string_view text, bool at_end);

// Splits input that arrives in pieces into commands. Scans each character once.
//
//   CommandReader reader;
//   for (piece : pieces) for (command : reader.add(piece)) run(command);
//   for (command : reader.finish()) run(command);
class CommandReader {
 public:
  CommandReader();
  ~CommandReader();

  // Largest length of a command in bytes. A longer one throws Error(kUsage), because such input is
  // probably no command.
  static constexpr size_t kLongest = size_t{16} << 20;

  // Returns the commands that end in this piece.
  std::vector<std::string> add(std::string_view piece);
  // Returns the last command, which needs no newline, at the end of the input. Returns an empty
  // list if there is none or if its quote is open.
  std::vector<std::string> finish();
  // Returns the unfinished command at the end of the input so far.
  const std::string& rest() const;
  bool open_quote() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Splits a command at each ` | ` outside of quotes. Returns the command alone if there is no pipe.
std::vector<std::string> split_pipes(std::string_view command);

// Splits a command into words. `quoted`, if given, receives for each word whether any part of it
// was in quotes. Throws Error(kUsage) for an unclosed quote.
std::vector<std::string> split_words(std::string_view command, std::vector<bool>* quoted = nullptr);

}  // namespace am::inspect
