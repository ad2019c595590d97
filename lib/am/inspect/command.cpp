#include "am/inspect/command.h"

#include <algorithm>
#include <cmath>

#include "am/base/first_line.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/words.h"

namespace am::inspect {
namespace {

const Option* find_option(const Command& command, std::string_view name) {
  const auto found = std::find_if(command.options.begin(), command.options.end(),
                                  [&](const Option& option) { return option.name == name; });
  return found == command.options.end() ? nullptr : &*found;
}

[[noreturn]] void unknown_option(const Command& command, const std::string& name) {
  std::vector<std::string> names;
  for (const Option& option : command.options) names.emplace_back(option.name);
  const auto near = nearest(name, names);
  throw Error(ErrorKind::kUsage, cat("`", command.name, "` has no option ", name),
              near ? cat("did you mean ", *near, "?") : cat("usage: ", command.usage()));
}

// Separates options from operands. `--name`, `--name value` and `--name=value` are options; all
// other words are operands. Behind the word `--`, every word is an operand.
Arguments parse_arguments(const Command& command, std::vector<std::string> words,
                          const std::vector<bool>& quoted) {
  Arguments arguments;
  bool options_end = false;
  for (size_t i = 1; i < words.size(); ++i) {
    std::string& word = words[i];
    if (options_end || !starts_with(word, "--")) {
      arguments.words.push_back(std::move(word));
      arguments.quoted.push_back(quoted[i]);
      continue;
    }
    if (word == "--") {
      options_end = true;
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Option* option = find_option(command, name);
    if (option == nullptr) unknown_option(command, name);
    if (option->value.empty()) {
      if (equals != std::string::npos) {
        throw Error(ErrorKind::kUsage, cat(name, " takes no value"),
                    cat("usage: ", command.usage()));
      }
      arguments.options[name] = "";
    } else if (equals != std::string::npos) {
      arguments.options[name] = word.substr(equals + 1);
    } else if (++i < words.size()) {
      arguments.options[name] = words[i];
    } else {
      throw Error(ErrorKind::kUsage, cat(name, " needs a value: ", option->value),
                  cat("usage: ", command.usage()));
    }
  }
  if (arguments.words.size() < command.words.least) {
    throw Error(ErrorKind::kUsage, cat("`", command.name, "` needs ", command.operands),
                cat("usage: ", command.usage()));
  }
  if (arguments.words.size() > command.words.most) {
    throw Error(
        ErrorKind::kUsage,
        cat("`", command.name, "` does not take `", arguments.words[command.words.most], "`"),
        cat("usage: ", command.usage()));
  }
  return arguments;
}

}  // namespace

std::string Arguments::text() const { return join(words, " "); }

std::string Arguments::value(std::string_view option, std::string_view fallback) const {
  const auto found = options.find(option);
  return found == options.end() ? std::string(fallback) : found->second;
}

int64_t Arguments::integer(std::string_view option, int64_t fallback, int64_t low,
                           int64_t high) const {
  const auto found = options.find(option);
  if (found == options.end()) return fallback;
  const std::string& text = found->second;
  const auto value = parse_integer(text);
  if (!value) throw Error(ErrorKind::kUsage, cat(option, " `", text, "` is not an integer"));
  if (*value < low || *value > high) {
    throw Error(ErrorKind::kUsage, cat(option, " ", *value, " is out of range"),
                high == std::numeric_limits<int64_t>::max() ? cat("at least ", low)
                                                            : cat(low, " to ", high));
  }
  return *value;
}

double Arguments::number(std::string_view option, double fallback, double low, double high) const {
  const auto found = options.find(option);
  if (found == options.end()) return fallback;
  const std::string& text = found->second;
  const auto value = parse_number(text);
  if (!value || !std::isfinite(*value)) {
    throw Error(ErrorKind::kUsage, cat(option, " `", text, "` is not a number"));
  }
  if (*value < low || *value > high) {
    throw Error(ErrorKind::kUsage, cat(option, " ", text, " is out of range"),
                cat(low, " to ", high));
  }
  return *value;
}

std::string Command::takes() const {
  std::vector<std::string> texts;
  if (!operands.empty()) texts.emplace_back(operands);
  for (const Option& option : options) {
    texts.push_back(cat("[", option.name, option.value.empty() ? "" : " ", option.value, "]"));
  }
  return join(texts, " ");
}

std::string Command::usage() const {
  const std::string after = takes();
  return cat(name, after.empty() ? "" : " ", after);
}

bool Command::reads_values() const {
  const auto* in_job = as<InJob>();
  return as<OnValues>() != nullptr || (in_job != nullptr && in_job->without_job);
}

std::span<const Command* const> commands() {
  static const std::vector<const Command*> all = [] {
    std::vector<const Command*> rows;
    for (const auto part : {tensor_rows(), model_rows(), session_rows()}) {
      for (const Command& row : part) rows.push_back(&row);
    }
    return rows;
  }();
  return all;
}

const Command* find_command(std::string_view name) {
  for (const Command* command : commands()) {
    if (command->name == name) return command;
    const std::vector<std::string> others = split(command->also, ' ');
    if (!name.empty() && std::find(others.begin(), others.end(), name) != others.end()) {
      return command;
    }
  }
  return nullptr;
}

const Command& named_command(const std::string& name) {
  if (const Command* command = find_command(name)) return *command;
  std::vector<std::string> names;
  for (const Command* command : commands()) names.emplace_back(command->name);
  const auto near = nearest(name, names);
  throw Error(ErrorKind::kUsage, cat("there is no command `", name, "`"),
              near ? cat("did you mean `", *near, "`?") : "`help` lists the commands");
}

ParsedCommand parse_command(const std::string& input) {
  std::vector<bool> quoted;
  std::vector<std::string> words = split_words(input, &quoted);
  if (words.empty()) throw Error(ErrorKind::kUsage, "there is no command", "for example: ls");
  const Command& command = named_command(words.front());
  return {&command, parse_arguments(command, std::move(words), quoted)};
}

ParsedCommand parse_filter(const std::string& stage) {
  std::vector<bool> quoted;
  std::vector<std::string> words = split_words(stage, &quoted);
  if (words.empty()) {
    throw Error(ErrorKind::kUsage, "there is no command after `|`", "for example: ls | head 3");
  }
  std::vector<std::string> names;
  for (const Command* command : commands()) {
    if (!command->can_follow_pipe()) continue;
    if (command->name == words.front()) {
      return {command, parse_arguments(*command, std::move(words), quoted)};
    }
    names.emplace_back(command->name);
  }
  const auto near = nearest(words.front(), names);
  throw Error(ErrorKind::kUsage, cat("`", words.front(), "` cannot follow a pipe"),
              near ? cat("did you mean `", *near, "`?") : cat("these can: ", join(names, ", ")));
}

Outcome failed(const std::string& input, const std::string& command, const Error& error) {
  Outcome outcome;
  outcome.input = input;
  outcome.command = command;
  outcome.error = {error.kind(), error.what(), error.hint()};
  return outcome;
}

namespace {

// Runs the action of a command on one rank of a session. Throws Error(kUsage) for actions that need
// a pipe, a console or a job. A running job performs the actions of kind InJob without RankRunner
// (live/attach_server.h).
struct RankRunner {
  Session& session;
  const Command& command;
  const Arguments& arguments;

  Result operator()(const OnRanks& action) const { return action.function(session, arguments); }
  Result operator()(const OnValues&) const {
    return session.value_function(command.name)(session, arguments);
  }
  Result operator()(const WithoutSession& action) const {
    return action.function(session.style(), arguments);
  }
  Result operator()(const BehindPipe&) const {
    throw Error(ErrorKind::kUsage, cat("`", command.name, "` can only follow a pipe"),
                cat("ls | ", command.usage()));
  }
  Result operator()(const InConsole&) const { not_here(); }
  Result operator()(const OfRuns&) const { not_here(); }
  [[noreturn]] void not_here() const {
    throw Error(ErrorKind::kUsage,
                cat("`", command.name,
                    "` is a command of the am-repl console, which is not available here"));
  }
  Result operator()(const InJob& action) const {
    if (action.without_job) return (*this)(OnValues{});
    throw Error(ErrorKind::kUsage,
                cat("`", command.name, "` needs a running job, but the target is not one"),
                "`am-repl RUN` attaches to the job of a run folder while it trains");
  }
};

}  // namespace

const Command* command_of(const std::string& input) {
  try {
    const std::vector<std::string> words = split_words(input);
    return words.empty() ? nullptr : find_command(words.front());
  } catch (const Error&) {
    return nullptr;  // the line has an unclosed quote
  }
}

Outcome answer(const std::string& input,
               const std::function<Result(const Command&, const Arguments&)>& perform) {
  Outcome outcome;
  outcome.input = input;
  try {
    const std::vector<std::string> words = split_words(input);
    if (words.empty()) return outcome;
    outcome.command = words.front();
    const ParsedCommand parsed = parse_command(input);
    outcome.command = std::string(parsed.command->name);
    outcome.result = perform(*parsed.command, parsed.arguments);
  } catch (const Error& error) {
    return failed(input, outcome.command, error);
  } catch (const std::exception& error) {
    outcome.error = {ErrorKind::kInternal, first_line(error), {}};
  }
  return outcome;
}

Outcome execute(Session& session, const std::string& input) {
  return answer(input, [&](const Command& command, const Arguments& arguments) {
    return std::visit(RankRunner{session, command, arguments}, command.action);
  });
}

std::optional<Outcome> execute_without_session(const std::string& input, const term::Style& style) {
  const Command* named = command_of(input);
  const auto* action = named == nullptr ? nullptr : named->as<WithoutSession>();
  if (action == nullptr) return std::nullopt;
  return answer(input, [&](const Command&, const Arguments& arguments) {
    return action->function(style, arguments);
  });
}

Json to_json(const Outcome& outcome) {
  Json json = {{"command", outcome.command}, {"input", outcome.input}, {"ok", outcome.ok()}};
  if (!outcome.filters.empty()) json["filters"] = outcome.filters;
  if (!outcome.error) {
    json.update(outcome.result.json);
  } else {
    json["error"] = {{"message", outcome.error->message}, {"help", outcome.error->hint}};
  }
  return json;
}

}  // namespace am::inspect
