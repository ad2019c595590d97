#include "am/inspect/words.h"

#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::inspect {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

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

struct CommandReader::State {
  // State of the parser at a position in the text.
  struct Scanner {
    char quote = 0;        // the character of the open quote; 0 outside of quotes
    bool escaped = false;  // whether a backslash before this position escapes the next character
    bool in_word = false;
    bool in_comment = false;

    // Advances the state by the character `c`. Returns true if `c` ends a command.
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

  Scanner scanner;
  std::string current;
};

CommandReader::CommandReader() : state_(std::make_unique<State>()) {}
CommandReader::~CommandReader() = default;

std::vector<std::string> CommandReader::add(std::string_view piece) {
  std::vector<std::string> commands;
  auto& scanner = state_->scanner;
  std::string& current = state_->current;
  for (const char c : piece) {
    const bool ends = scanner.step(c);
    if (ends) {
      add_command(commands, current);
      current.clear();
    } else if (!scanner.in_comment) {
      current += c;
    }
    if (current.size() > kLongest) {
      throw Error(ErrorKind::kUsage, cat("a command is longer than ", kLongest, " bytes"),
                  "commands end at a newline or a semicolon; `loss FILE` reads a file");
    }
  }
  return commands;
}

std::vector<std::string> CommandReader::finish() {
  std::vector<std::string> commands;
  if (open_quote()) return commands;
  add_command(commands, std::exchange(state_->current, {}));
  return commands;
}

const std::string& CommandReader::rest() const { return state_->current; }

bool CommandReader::open_quote() const { return state_->scanner.quote != 0; }

SplitCommands split_commands(std::string_view text, bool at_end) {
  CommandReader reader;
  SplitCommands result;
  result.commands = reader.add(text);
  result.open_quote = reader.open_quote();
  if (at_end) {
    for (std::string& last : reader.finish()) result.commands.push_back(std::move(last));
  }
  result.rest = reader.rest();
  return result;
}

std::vector<std::string> split_pipes(std::string_view command) {
  std::vector<std::string> stages(1);
  char quote = 0;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    const bool alone = (i == 0 || is_space(command[i - 1])) &&
                       (i + 1 == command.size() || is_space(command[i + 1]));
    if (c == '|' && quote == 0 && alone) {
      stages.emplace_back();
      continue;
    }
    stages.back() += c;
    if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      stages.back() += command[++i];
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    }
  }
  return stages;
}

std::vector<std::string> split_words(std::string_view command, std::vector<bool>* quoted) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  bool in_quotes = false;  // a part of the current word was in quotes
  char quote = 0;
  const auto end_word = [&] {
    if (in_word) {
      words.push_back(std::exchange(word, {}));
      if (quoted != nullptr) quoted->push_back(in_quotes);
    }
    in_word = in_quotes = false;
  };
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      const char next = command[++i];
      if (next == '\n' && quote == 0) continue;  // a backslash before a line break joins the lines
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
      in_word = in_quotes = true;  // an empty quote is a word too: ''
    } else if (is_space(c)) {
      end_word();
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) {
    throw Error(
        ErrorKind::kUsage, cat("the quote ", quote, " is not closed"),
        quote == '\'' ? "put \"double quotes\" around a text with an apostrophe" : std::string());
  }
  end_word();
  return words;
}

}  // namespace am::inspect
