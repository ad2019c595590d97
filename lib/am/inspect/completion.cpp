#include "am/inspect/completion.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <set>

#include "am/base/error.h"
#include "am/base/home.h"
#include "am/base/text.h"
#include "am/inspect/answers.h"
#include "am/inspect/words.h"

namespace am::inspect {
namespace {

namespace fs = std::filesystem;

void add_paths(std::string_view word, std::set<std::string>& out) {
  const size_t slash = word.rfind('/');
  const std::string folder(slash == std::string_view::npos ? "" : word.substr(0, slash + 1));
  const std::string_view start = slash == std::string_view::npos ? word : word.substr(slash + 1);
  std::error_code problem;
  // "~" is expanded to find the folder, but candidates begin with "~" as the user typed it.
  const fs::path there = begins_with_home(folder) ? expand_home(folder) : fs::path(folder);
  for (fs::directory_iterator entry(there.empty() ? "." : there, problem), end;
       !problem && entry != end; entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    if (!starts_with(name, start) || (start.empty() && name.front() == '.')) continue;
    std::error_code ignored;
    out.insert(cat(folder, name, entry->is_directory(ignored) ? "/" : ""));
  }
}

void add_starting(const std::vector<std::string>& words, std::string_view word,
                  std::set<std::string>& out) {
  for (const std::string& candidate : words) {
    if (starts_with(candidate, word)) out.insert(candidate);
  }
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command* command : commands()) names.emplace_back(command->name);
  return names;
}

std::vector<std::string> filter_names() {
  std::vector<std::string> names;
  for (const Command* command : commands()) {
    if (command->can_follow_pipe()) names.emplace_back(command->name);
  }
  return names;
}

void add_operands(const Command& command, std::string_view word, const SessionFacts& facts,
                  std::set<std::string>& out) {
  add_starting(split(command.keywords, ' '), word, out);
  switch (command.completes) {
    case Operand::kParameter:
      out.merge(by_segment(facts.parameters, word));
      break;
    case Operand::kModule: {
      std::set<std::string> modules = by_segment(facts.modules, word);
      modules.erase(std::string(word));
      out.merge(modules);
      out.merge(by_segment(facts.parameters, word));
      break;
    }
    case Operand::kPath:
      add_paths(word, out);
      break;
    case Operand::kCommand:
      add_starting(command_names(), word, out);
      break;
    case Operand::kField:  // complete() offers the fields of the rows before the pipe
    case Operand::kNone:
    case Operand::kText:
      break;
  }
}

// Adds to `out` the completions of the value of an option. Alternatives in lower case, for example
// "mean|max", are literal values; for "FILE" and "TEXT|FILE" the value is completed as a path.
void add_values(const Option& option, std::string_view word, std::set<std::string>& out) {
  const std::vector<std::string> values = split(option.value, '|');
  if (std::find(values.begin(), values.end(), "FILE") != values.end()) add_paths(word, out);
  for (const std::string& value : values) {
    const bool is_name = !value.empty() && std::islower(static_cast<unsigned char>(value[0])) != 0;
    if (is_name) add_starting({value}, word, out);
  }
}

// The text before the cursor, in parsed form.
struct Typed {
  const Command* command = nullptr;  // null if the text names no command yet
  const Option* option = nullptr;    // option whose value is being typed; may be null
  bool first = false;                // the word being typed is the command's name
  // The command whose rows the pipe passes on; null if the text has no pipe, or if the command
  // before the pipe is unknown.
  const Command* source = nullptr;
  bool behind_pipe = false;
  std::string word;
};

// Returns the option whose name is `word`; null if there is no option of this name or if the option
// has no value.
const Option* option_of(const Command& command, std::string_view word) {
  for (const Option& option : command.options) {
    if (option.name == word && !option.value.empty()) return &option;
  }
  return nullptr;
}

// Returns the command of this name that may follow a pipe; null if there is none.
const Command* filter_of(std::string_view name) {
  for (const Command* command : commands()) {
    if (command->name == name && command->can_follow_pipe()) return command;
  }
  return nullptr;
}

// Parses the text before the cursor. Returns nullopt if the cursor is inside quotes.
std::optional<Typed> typed(std::string_view line) {
  const SplitCommands split = split_commands(line, false);
  if (split.open_quote) return std::nullopt;
  const std::vector<std::string> stages = split_pipes(split.rest);
  const std::string& current = stages.back();
  Typed typed;
  typed.behind_pipe = stages.size() > 1;
  if (typed.behind_pipe) typed.source = command_of(stages.front());
  // If the operands are an expression, the word being typed begins after an open parenthesis. For
  // other commands, parentheses are ordinary characters of a word, for example of a path.
  const Command* command = command_of(current);
  const bool has_brackets =
      command != nullptr && command->keywords.find('(') != std::string_view::npos;
  const size_t end = current.find_last_of(has_brackets ? " \t(" : " \t");
  typed.word = end == std::string::npos ? current : current.substr(end + 1);
  std::vector<std::string> before;
  try {
    before = split_words(current.substr(0, current.size() - typed.word.size()));
  } catch (const Error&) {
    return std::nullopt;  // the text has an unclosed quote
  }
  typed.first = before.empty();
  if (typed.first) return typed;
  if (typed.behind_pipe) command = filter_of(before.front());
  typed.command = command;
  if (command == nullptr) return typed;
  typed.option = option_of(*command, before.back());
  const size_t equals = typed.word.find('=');
  if (const Option* option = option_of(*command, typed.word.substr(0, equals));
      option != nullptr && equals != std::string::npos) {
    typed.option = option;
    typed.word.erase(0, equals + 1);
  }
  return typed;
}

}  // namespace

std::set<std::string> by_segment(const std::vector<std::string>& names, std::string_view word) {
  std::set<std::string> out;
  for (const std::string& name : names) {
    if (!starts_with(name, word)) continue;
    const size_t dot = name.find('.', word.size());
    out.insert(dot == std::string::npos ? name : name.substr(0, dot + 1));
  }
  return out;
}

Completion complete(std::string_view line, const SessionFacts& facts) {
  Completion completion;
  completion.begin = line.size();
  const auto now = typed(line);
  if (!now) return completion;
  completion.begin = line.size() - now->word.size();
  std::set<std::string> candidates;
  if (now->first) {
    add_starting(now->behind_pipe ? filter_names() : command_names(), now->word, candidates);
  } else if (now->option != nullptr) {
    add_values(*now->option, now->word, candidates);
  } else if (now->command != nullptr && starts_with(now->word, "--")) {
    for (const Option& option : now->command->options) {
      add_starting({std::string(option.name)}, now->word, candidates);
    }
  } else if (now->command != nullptr && now->behind_pipe) {
    const bool names_fields =
        now->command->completes == Operand::kField || now->command->of_rows != nullptr;
    if (names_fields && now->source != nullptr) {
      add_starting(row_keys(*now->source), now->word, candidates);
    }
  } else if (now->command != nullptr) {
    add_operands(*now->command, now->word, facts, candidates);
  }
  completion.candidates.assign(candidates.begin(), candidates.end());
  std::sort(completion.candidates.begin(), completion.candidates.end(),
            [](const std::string& a, const std::string& b) { return natural_less(a, b); });
  return completion;
}

std::string hint(std::string_view line, int columns) {
  const auto now = typed(line);
  if (!now || now->command == nullptr) return {};
  const auto fits = [&](const std::string& text) { return display_width(text) <= columns; };
  if (now->option != nullptr) {
    std::string text = cat(now->option->value, ": ", now->option->help);
    if (!fits(text)) text = now->option->value;
    return fits(text) ? text : std::string();
  }
  std::string text = now->command->takes();
  if (!fits(text)) text = now->command->operands;
  return fits(text) ? text : std::string();
}

std::string common_prefix(const std::vector<std::string>& candidates) {
  if (candidates.empty()) return {};
  std::string prefix = candidates.front();
  for (const std::string& candidate : candidates) {
    const auto [end, ignored] =
        std::mismatch(prefix.begin(), prefix.end(), candidate.begin(), candidate.end());
    prefix.erase(end, prefix.end());
  }
  return prefix;
}

}  // namespace am::inspect
