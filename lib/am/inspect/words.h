// Splits input into commands, and a command into words.
//
// A command ends at a newline or a `;`, and a word ends at a space, except inside quotes. In
// 'single quotes' all characters are literal; in "double quotes" there are the escapes \" \\ \n \t.
// Outside of single quotes a backslash escapes the next character; outside of all quotes, a
// backslash before a line break joins the lines. A `#` at the beginning of a word starts a comment.
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
  std::string rest;                   // unfinished command at the end of the text
  bool open_quote = false;            // whether the text ends inside quotes
};

// Splits the text into commands. With `at_end`, the text is the end of the input: the last command
// needs no newline, but remains in `rest` if it has an open quote.
SplitCommands split_commands(std::string_view text, bool at_end);

// Splits input into commands. The input arrives in pieces, and each character is scanned only once.
//
//   CommandReader reader;
//   for (piece : pieces) for (command : reader.add(piece)) run(command);
//   for (command : reader.finish()) run(command);
class CommandReader {
 public:
  CommandReader();
  ~CommandReader();

  // Largest length of a command in bytes. Longer input is probably not a command; add() throws
  // Error(kUsage) for it.
  static constexpr size_t kLongest = size_t{16} << 20;

  // Appends a piece to the input and returns the commands that end in this piece.
  std::vector<std::string> add(std::string_view piece);
  // Must be called at the end of the input. Returns a list that contains only the last command, if
  // neither a newline nor a `;` ends this command. Returns an empty list if there is no unfinished
  // command, or if the unfinished command has an open quote.
  std::vector<std::string> finish();
  // Returns the unfinished command at the end of the input so far.
  const std::string& rest() const;
  bool open_quote() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Splits a command at each `|` that stands between spaces and outside of quotes. Returns the
// command itself if there is no pipe.
std::vector<std::string> split_pipes(std::string_view command);

// Splits a command into words. If `quoted` is not null, appends to `*quoted` for each word whether
// a part of the word was in quotes. Throws Error(kUsage) for an unclosed quote.
std::vector<std::string> split_words(std::string_view command, std::vector<bool>* quoted = nullptr);

}  // namespace am::inspect
