// The commands of am-repl: one table row each, from which dispatch, `help`, completion, the manual
// page and the JSON Schema of answers (answers.h) all come.
//
//   Outcome outcome = execute(session, "stats *.norm.weight");
//   std::cout << (outcome.ok() ? outcome.result.text : outcome.error->message);
//
// Rows are constants: they need no start of their own. To add a command: one file in commands/ with
// a `Command` value, and its name in commands/registry.cpp; in values/commands/ where it reads
// values.
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

// What a command's operands name: decides what Tab completes.
enum class Operand { kNone, kParameter, kModule, kText, kPath, kCommand };

struct Option {
  std::string_view name;   // "--tokens"
  std::string_view value;  // "N"; empty: it takes none; "mean|max": one of these
  std::string_view help;
};

// A command line after its name.
struct Arguments {
  std::vector<std::string> words;
  std::vector<bool> quoted;  // of each word: it stood in quotes
  std::map<std::string, std::string, std::less<>> options;

  // The words joined by single spaces.
  std::string text() const;
  bool has(std::string_view option) const { return options.find(option) != options.end(); }
  // The option's value, or the fallback.
  std::string value(std::string_view option, std::string_view fallback) const;
  // The choice whose `name` is the option's value. Throws Error(kUsage) that lists them.
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
  // The option's value. Throw Error(kUsage) that names the option for what is no number or outside
  // of [low, high].
  int64_t integer(std::string_view option, int64_t fallback, int64_t low,
                  int64_t high = std::numeric_limits<int64_t>::max()) const;
  double number(std::string_view option, double fallback, double low, double high) const;
};

struct Result {
  Json json = Json::object();  // INTERFACE's fields
  std::string text;            // for a person, unless for_programs(); ends with a newline
  std::string svg;             // the same as a picture, of commands that draw
  bool quit = false;
  // A question whose answer is no: a script stops there as at an error.
  bool failed = false;
};

class Console;

struct Command {
  std::string_view name;
  std::string_view operands;  // "PARAM", "[GLOB]"
  std::string_view summary;   // one line
  std::string_view help;      // more, with an example
  // The fields of its answer in JSON, in the notation of am/base/json_type.h; empty: none.
  std::string_view json = {};
  std::string_view also = {};  // what people type for it, by habit: "exit q"
  Operand completes = Operand::kNone;
  std::string_view keywords = {};  // which operands may be besides: "digits dtype"
  size_t min_words = 0;
  size_t max_words = 0;  // kAnyNumber: words are a text
  std::span<const Option> options = {};
  // One of the five: what the ranks do together; what needs no session and is answered even while
  // they are busy; what stands behind a pipe and changes an answer's rows; what console.h does;
  // what a job that runs does itself (live/host.h), and, without `run`, nobody else.
  Result (*run)(Session& session, const Arguments& arguments) = nullptr;
  Result (*tell)(const term::Style& style, const Arguments& arguments) = nullptr;
  void (*filter)(Json& rows, const Arguments& arguments) = nullptr;
  Result (*at_console)(Console& console, const Arguments& arguments) = nullptr;
  bool live = false;
  bool lasts = false;  // as long as the steps that it waits for: no answer yet is no news

  static constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();
  // "PARAM [--bins N]"; may be empty
  std::string takes() const;
  // "hist PARAM [--bins N]"
  std::string usage() const;
};

// In the order in which `help` lists them: of this library those that need no values, of
// libautomesh all.
std::span<const Command* const> commands();
// From now on these; before any session. They must outlive the process's last.
void use_commands(std::span<const Command* const> commands);
const Command* find_command(std::string_view name);
// The one that a line begins with; null where it names none.
const Command* command_of(const std::string& input);

// A command line taken apart.
struct ParsedCommand {
  const Command* command = nullptr;
  Arguments arguments;
};
// Throws Error(kUsage) for an unknown command, option or a wrong number of words; nothing is run.
ParsedCommand parse_command(const std::string& input);

struct CommandError {
  ErrorKind kind = ErrorKind::kUsage;
  std::string message;
  std::string hint;

  // A session can go on after a wrong command; not after a lost peer or a bug.
  bool fatal() const {
    return kind == ErrorKind::kRuntime || kind == ErrorKind::kPeer || kind == ErrorKind::kInternal;
  }
};

struct Outcome {
  std::string input;    // as it was typed
  std::string command;  // its name
  Result result;
  std::vector<std::string> filters;  // that changed its rows, behind pipes
  std::optional<CommandError> error;

  bool ok() const { return !error.has_value() && !result.failed; }
};

// What a command that ended with the error answers; `command` is its name, where it has one.
Outcome failed(const std::string& input, const std::string& command, const Error& error);

// Runs one command. Never throws: what a command throws becomes the outcome's error. Collective.
Outcome execute(Session& session, const std::string& input);
// What `perform` makes of a command that is not run in a session, with its arguments; as execute.
Outcome answer(const std::string& input,
               const std::function<Result(const Command&, const Arguments&)>& perform);
// The same for a command that needs no session; nothing for any other input. Not collective.
std::optional<Outcome> execute_without_session(const std::string& input, const term::Style& style);

// One entry of --json's "results".
Json to_json(const Outcome& outcome);

}  // namespace am::inspect
