// The commands of am-repl: one table row each, from which dispatch, `help`, completion, the manual
// page and the JSON Schema of answers (answers.h) are generated.
//
//   Outcome outcome = execute(session, "stats *.norm.weight");
//   std::cout << (outcome.ok() ? outcome.result.text : outcome.error->message);
//
// Rows are constants without dynamic initialisation. To add a command: one file in commands/ with a
// `Command` value, and its name in commands/registry.cpp; in values/commands/ if it reads values.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/inspect/session.h"

namespace am::inspect {

// Kind of a command's operands; determines what Tab completes.
enum class Operand { kNone, kParameter, kModule, kText, kPath, kCommand };

struct Option {
  std::string_view name;   // "--tokens"
  std::string_view value;  // "N"; empty: none; "mean|max": one of these
  std::string_view help;
};

// Parsed command line without the command's name.
struct Arguments {
  std::vector<std::string> words;
  std::vector<bool> quoted;  // per word: whether it was quoted
  std::map<std::string, std::string, std::less<>> options;

  // The words joined by single spaces.
  std::string text() const;
  bool has(std::string_view option) const { return options.find(option) != options.end(); }
  // The option's value, or the fallback.
  std::string value(std::string_view option, std::string_view fallback) const;
  // Returns the choice whose `name` is the option's value. Throws Error(kUsage) listing the
  // choices.
  template <typename Choice, size_t kCount>
  const Choice& one_of(const Choice (&choices)[kCount], std::string_view option,
                       std::string_view fallback) const {
    const std::string given = value(option, fallback);
    std::vector<std::string> names;
    for (const Choice& choice : choices) {
      if (choice.name == given) return choice;
      names.emplace_back(choice.name);
    }
    throw Error(ErrorKind::kUsage, cat(option, " `", given, "`: one of ", join(names, ", ")));
  }
  // Return the option's value. Throw Error(kUsage) naming the option if it is not a number or not
  // in [low, high].
  int64_t integer(std::string_view option, int64_t fallback, int64_t low,
                  int64_t high = std::numeric_limits<int64_t>::max()) const;
  double number(std::string_view option, double fallback, double low, double high) const;
};

struct Result {
  Json json = Json::object();  // fields of the JSON answer
  std::string text;            // for people, unless for_programs(); ends with a newline
  std::string svg;             // picture of the answer, for commands that draw
  bool quit = false;
  // True if a check found a problem: a script then stops as after an error.
  bool failed = false;
};

class Console;

struct Command {
  std::string_view name;
  std::string_view operands;  // "PARAM", "[GLOB]"
  std::string_view summary;   // one line
  std::string_view help;      // details, with an example
  // Fields of the JSON answer, in the notation of am/base/json_type.h; empty: none.
  std::string_view json = {};
  std::string_view also = {};  // aliases that people type by habit: "exit q"
  Operand completes = Operand::kNone;
  std::string_view keywords = {};  // additional literal operands, for completion: "digits dtype"
  size_t min_words = 0;
  size_t max_words = 0;  // kAnyNumber: the words form a text
  std::span<const Option> options = {};
  // Implementations, one per command: `run` on all ranks; `tell` without a session, even while the
  // ranks are busy; `filter` behind a pipe, on an answer's rows; `at_console` in the console
  // (console.h); `live` in a running job (live/host.h), together with `run` if other sessions
  // support the command too.
  Result (*run)(Session& session, const Arguments& arguments) = nullptr;
  Result (*tell)(const term::Style& style, const Arguments& arguments) = nullptr;
  void (*filter)(Json& rows, const Arguments& arguments) = nullptr;
  Result (*at_console)(Console& console, const Arguments& arguments) = nullptr;
  bool live = false;
  bool lasts = false;  // long-running, as it waits for steps: silence is not a hang

  static constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();
  // "PARAM [--bins N]"; may be empty
  std::string takes() const;
  // "hist PARAM [--bins N]"
  std::string usage() const;
};

// Returns the commands in the order of `help`. libautomesh_core has those that need no values of
// tensors, libautomesh has all.
std::span<const Command* const> commands();
// Replaces the commands. Call before any session; `commands` must live until the process ends.
void use_commands(std::span<const Command* const> commands);
const Command* find_command(std::string_view name);
// Returns the command that a line begins with; null if there is none.
const Command* command_of(const std::string& input);

// A parsed command line.
struct ParsedCommand {
  const Command* command = nullptr;
  Arguments arguments;
};
// Throws Error(kUsage) for an unknown command or option or a wrong number of words; runs nothing.
ParsedCommand parse_command(const std::string& input);

struct CommandError {
  ErrorKind kind = ErrorKind::kUsage;
  std::string message;
  std::string hint;

  // Whether the session must end: after a lost peer or an internal error, not after a wrong
  // command.
  bool fatal() const {
    return kind == ErrorKind::kRuntime || kind == ErrorKind::kPeer || kind == ErrorKind::kInternal;
  }
};

struct Outcome {
  std::string input;    // as typed
  std::string command;  // the command's name
  Result result;
  std::vector<std::string> filters;  // names of filters applied to the rows
  std::optional<CommandError> error;

  bool ok() const { return !error.has_value() && !result.failed; }
};

// Outcome of a command that ended with an error; `command` is its name, or empty.
Outcome failed(const std::string& input, const std::string& command, const Error& error);

// Runs one command. Never throws: an exception becomes the outcome's error. Collective.
Outcome execute(Session& session, const std::string& input);
// Runs a command outside of a session by calling `perform` with the command and its arguments.
// Errors are handled as by execute.
Outcome answer(const std::string& input,
               const std::function<Result(const Command&, const Arguments&)>& perform);
// Runs a command that needs no session; returns nothing for any other input. Not collective.
std::optional<Outcome> execute_without_session(const std::string& input, const term::Style& style);

// One entry of --json's "results".
Json to_json(const Outcome& outcome);

}  // namespace am::inspect
