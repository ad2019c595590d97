// From what a user typed to commands, and from a command to its words.
//
// Commands end at a newline or a `;`. Words end at a space; quotes keep spaces, `;` and line
// breaks: 'as it stands', "with \" \\ \n \t". Outside of single quotes a backslash takes the next
// character as it is, and a line break behind one is none. A `#` where a word could begin starts a
// comment.
//
//   split_commands("ls; show 'a b'\n", true).commands   // {"ls", "show 'a b'"}
//   split_words("show 'a b'")                           // {"show", "a b"}
#pragma once

#include <memory>
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

// Commands that arrive in pieces: what was looked at once is not looked at again.
//
//   CommandReader reader;
//   for (piece : pieces) for (command : reader.add(piece)) run(command);
//   for (command : reader.finish()) run(command);
class CommandReader {
 public:
  CommandReader();
  ~CommandReader();

  // A command longer than this is an Error(kUsage): input without an end is no command.
  static constexpr size_t kLongest = size_t{16} << 20;

  // The commands that end in this piece.
  std::vector<std::string> add(std::string_view piece);
  // The last one, which needs no newline; none where its quote is open.
  std::vector<std::string> finish();
  // What is not finished yet.
  const std::string& rest() const;
  bool open_quote() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The commands between ` | `, which stands alone and outside of quotes; one where there is none.
std::vector<std::string> split_pipes(std::string_view command);

// Throws Error(kUsage) for a quote that is not closed. `quoted`, where it is given, says of each
// word whether a part of it stood in quotes.
std::vector<std::string> split_words(std::string_view command, std::vector<bool>* quoted = nullptr);

}  // namespace am::inspect
