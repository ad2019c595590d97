#include "am/inspect/words.h"

#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::inspect {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Where in the grammar a position of the text is.
struct Scanner {
  char quote = 0;        // the quote that is open, or 0
  bool escaped = false;  // the character before was a backslash
  bool in_word = false;
  bool in_comment = false;

  // True when `c` ends a command.
  bool step(char c) {
    if (in_comment) {
      if (c != '\n') return false;
      in_comment = false;
      return true;
    }
    if (escaped) {
      escaped = false;
      return false;
    }
    if (c == '\\' && quote != '\'') {
      escaped = true;
      in_word = true;
      return false;
    }
    if (quote != 0) {
      if (c == quote) quote = 0;
      return false;
    }
    if (c == '\n' || c == ';') {
      in_word = false;
      return true;
    }
    if (c == '\'' || c == '"') quote = c;
    if (c == '#' && !in_word) in_comment = true;
    in_word = !is_space(c);
    return false;
  }
};

void add_command(std::vector<std::string>& commands, const std::string& text) {
  const std::string_view command = trim(text);
  if (!command.empty()) commands.emplace_back(command);
}

char escape_in_double_quotes(char c) {
  if (c == 'n') return '\n';
  if (c == 't') return '\t';
  return c;
}

}  // namespace

SplitCommands split_commands(std::string_view text, bool at_end) {
  SplitCommands result;
  Scanner scanner;
  std::string current;
  for (const char c : text) {
    const bool ends = scanner.step(c);
    if (ends) {
      add_command(result.commands, current);
      current.clear();
    } else if (!scanner.in_comment) {
      current += c;
    }
  }
  result.open_quote = scanner.quote != 0;
  if (at_end && !result.open_quote) {
    add_command(result.commands, current);
  } else {
    result.rest = current;
  }
  return result;
}

std::vector<std::string> split_words(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      const char next = command[++i];
      word += quote == '"' ? escape_in_double_quotes(next) : next;
      in_word = true;
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;  // '' is a word without characters
    } else if (is_space(c)) {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) {
    throw Error(
        ErrorKind::kUsage, cat("the quote ", quote, " is not closed"),
        quote == '\'' ? "an apostrophe in a text: put \"double quotes\" around it" : std::string());
  }
  if (in_word) words.push_back(word);
  return words;
}

}  // namespace am::inspect
