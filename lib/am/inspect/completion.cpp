#include "am/inspect/completion.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "am/base/error.h"
#include "am/base/home.h"
#include "am/base/text.h"
#include "am/inspect/words.h"

namespace am::inspect {
namespace {

namespace fs = std::filesystem;

// Names that begin with `word`, each cut behind the next dot after it: "model.la" offers
// "model.layers.".
void add_by_segment(const std::vector<std::string>& names, std::string_view word, bool is_module,
                    std::set<std::string>& out) {
  for (const std::string& name : names) {
    if (!starts_with(name, word) || (is_module && name.size() == word.size())) continue;
    const size_t dot = name.find('.', word.size());
    out.insert(dot == std::string::npos ? name : name.substr(0, dot + 1));
  }
}

void add_paths(std::string_view word, std::set<std::string>& out) {
  const size_t slash = word.rfind('/');
  const std::string folder(slash == std::string_view::npos ? "" : word.substr(0, slash + 1));
  const std::string_view start = slash == std::string_view::npos ? word : word.substr(slash + 1);
  std::error_code problem;
  // What was typed stays as it was typed.
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

void add_operands(const Command& command, std::string_view word, const SessionFacts& facts,
                  std::set<std::string>& out) {
  switch (command.completes) {
    case Operand::kParameter:
      add_by_segment(facts.parameters, word, false, out);
      break;
    case Operand::kModule:
      add_by_segment(facts.parameters, word, false, out);
      add_by_segment(facts.modules, word, true, out);
      break;
    case Operand::kPath:
      add_paths(word, out);
      break;
    case Operand::kCommand:
      add_starting(command_names(), word, out);
      break;
    case Operand::kSetting:
      add_starting({"digits", "dtype", "tokenizer"}, word, out);
      break;
    case Operand::kNone:
    case Operand::kText:
      break;
  }
}

}  // namespace

Completion complete(std::string_view line, const SessionFacts& facts) {
  const SplitCommands split = split_commands(line, false);
  Completion completion;
  completion.begin = line.size();
  if (split.open_quote) return completion;
  const std::string current = split_pipes(split.rest).back();
  const size_t space = current.find_last_of(" \t");
  const std::string word = space == std::string::npos ? current : current.substr(space + 1);
  completion.begin = line.size() - word.size();
  std::vector<std::string> before;
  try {
    before = split_words(current.substr(0, current.size() - word.size()));
  } catch (const Error&) {
    return completion;  // a quote is open
  }
  std::set<std::string> candidates;
  if (before.empty()) {
    add_starting(command_names(), word, candidates);
  } else if (const Command* command = find_command(before.front())) {
    if (starts_with(word, "--")) {
      std::vector<std::string> options;
      for (const Option& option : command->options) options.emplace_back(option.name);
      add_starting(options, word, candidates);
    } else {
      add_operands(*command, word, facts, candidates);
    }
  }
  completion.candidates.assign(candidates.begin(), candidates.end());
  std::sort(completion.candidates.begin(), completion.candidates.end(),
            [](const std::string& a, const std::string& b) { return natural_less(a, b); });
  return completion;
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
