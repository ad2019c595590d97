// Defines and runs the commands of am-repl. Each command is a row of a table, a `Command` value,
// from which dispatch, `help`, completion, the manual page and the JSON Schema of answers
// (answers.h) are generated.
//
//   Outcome outcome = execute(session, "stats *.norm.weight");
//   std::cout << (outcome.ok() ? outcome.result.text : outcome.error->message);
//
// All rows are in commands/rows_*.cpp. Functions of commands that read values of tensors are found
// by name in values/commands/functions.cpp, which a session receives when it is opened, so that a
// program without libtorch knows these commands too, but cannot run them.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/inspect/session.h"

namespace am::inspect {

// Kind of a command's operands; determines what Tab completes.
enum class Operand { kNone, kParameter, kModule, kText, kPath, kCommand };

struct Option {
  std::string_view name;  // name with dashes, for example "--tokens"
  // Name of the value, for example "N", or a list of the legal values, for example "mean|max".
  // Empty: the option takes no value.
  std::string_view value;
  std::string_view help;
};

// The words and options of a command line, without the command's name.
struct Arguments {
  std::vector<std::string> words;
  std::vector<bool> quoted;  // for each of `words`: whether it was quoted
  std::map<std::string, std::string, std::less<>> options;

  // Returns the words joined by single spaces.
  std::string text() const;
  bool has(std::string_view option) const { return options.find(option) != options.end(); }
  // Returns the option's value, or `fallback` if the option was not given.
  std::string value(std::string_view option, std::string_view fallback) const;
  // Returns the choice whose `name` is the option's value. Throws Error(kUsage), which lists the
  // choices, if there is none.
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
  // Return the option's value, or `fallback` if the option was not given. Throw Error(kUsage),
  // which names the option, if the value is not a number in [low, high].
  int64_t integer(std::string_view option, int64_t fallback, int64_t low,
                  int64_t high = std::numeric_limits<int64_t>::max()) const;
  double number(std::string_view option, double fallback, double low, double high) const;
};

struct Result {
  Json json = Json::object();  // fields of the JSON answer
  // The answer as text that ends with a newline. May be empty if Session::for_programs().
  std::string text;
  std::string svg;    // the answer as a picture; empty for commands that draw none
  bool quit = false;  // the session ends after this command
  // A check of the command found a problem, so that a script stops as it does after an error.
  bool failed = false;
};

class Console;

using TextFunction = Result(const term::Style& style, const Arguments& arguments);
using RowsFunction = void(Json& rows, const Arguments& arguments);
using ConsoleFunction = Result(Console& console, const Arguments& arguments);

// Kinds of actions; each command has one.

// Runs on all ranks of the session.
struct OnRanks {
  RankFunction& function;
};

// Runs on all ranks of the session and reads values: Session::value_function() runs.
struct OnValues {};

// Runs without a session, even while the ranks are busy.
struct WithoutSession {
  TextFunction& function;
};

// Runs behind a pipe and changes the rows of the answer before it.
struct BehindPipe {
  RowsFunction& function;
};

// Runs in the console (console.h).
struct InConsole {
  ConsoleFunction& function;
};

// Runs in a job, which implements the command (live/attach_server.h).
struct InJob {
  bool without_job = false;  // sessions without a job run the command too, as OnValues
  bool lasts = false;        // the command waits for steps of the job, and may be silent for long
};

using Action = std::variant<OnRanks, OnValues, WithoutSession, BehindPipe, InConsole, InJob>;

inline constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();

struct WordCount {
  size_t least = 0;
  size_t most = 0;  // kAnyNumber if the operands form a text or a list
};

struct Command {
  std::string_view name;
  std::string_view operands = {};  // operands as `help` shows them, for example "PARAM" or "[GLOB]"
  std::string_view summary;        // one line about the command, for lists of commands
  std::string_view help;           // detailed help, with an example
  // Fields that the JSON answer of this command has besides the common ones, in the notation of
  // am/base/json_type.h; empty: none.
  std::string_view json = {};
  std::string_view also = {};          // further names of the command, for example "exit q"
  Operand completes = Operand::kNone;  // kind of the operands, for completion
  std::string_view keywords = {};      // words that may be operands too, for example "digits dtype"
  WordCount words = {};                // legal numbers of operands
  std::span<const Option> options = {};
  Action action;

  // Returns the operands and options, for example "PARAM [--bins N]"; may be empty.
  std::string takes() const;
  // Returns the name, operands and options, for example "hist PARAM [--bins N]".
  std::string usage() const;
  // Returns the action if it is of this kind, otherwise null.
  template <typename Kind>
  const Kind* as() const {
    return std::get_if<Kind>(&action);
  }
  // Whether a session without a job runs the command with a function that reads values.
  bool reads_values() const;
};

// Returns all commands, in the order of `help`. A program that links only libautomesh_core can run
// those that read no values.
std::span<const Command* const> commands();
// Returns the command with this name or further name, or null.
const Command* find_command(std::string_view name);
// Returns the command with this name or further name. Throws Error(kUsage), which names the nearest
// one, if there is none.
const Command& named_command(const std::string& name);
// Returns the command whose name is the first word of the line, or null if there is no such
// command.
const Command* command_of(const std::string& input);

// A command line that has been parsed.
struct ParsedCommand {
  const Command* command = nullptr;
  Arguments arguments;
};
// Parses a command line without running it. Throws Error(kUsage) for an unknown command, an unknown
// option or a wrong number of words.
ParsedCommand parse_command(const std::string& input);

struct CommandError {
  ErrorKind kind = ErrorKind::kUsage;
  std::string message;
  std::string hint;

  // Whether the session must end because of this error. Only failures of the ranks, a lost peer and
  // internal errors end it; a wrong command does not.
  bool fatal() const {
    return kind == ErrorKind::kRuntime || kind == ErrorKind::kPeer || kind == ErrorKind::kInternal;
  }
};

struct Outcome {
  std::string input;    // the command line as typed
  std::string command;  // the command's name
  Result result;
  std::vector<std::string> filters;  // names of the filters that were applied to the answer's rows
  std::optional<CommandError> error;

  bool ok() const { return !error.has_value() && !result.failed; }
};

// Returns the outcome of a command that ended with an error. `command` is the command's name, or
// empty if it is not known.
Outcome failed(const std::string& input, const std::string& command, const Error& error);

// Runs one command in the session, whose ranks must all call this. Never throws: an exception
// becomes the outcome's error.
Outcome execute(Session& session, const std::string& input);
// Runs a command by calling `perform` with the command and its arguments, without a session. Never
// throws: an exception becomes the outcome's error.
Outcome answer(const std::string& input,
               const std::function<Result(const Command&, const Arguments&)>& perform);
// Runs the command if it needs no session (WithoutSession), in this process alone. Returns nothing
// for any other input.
std::optional<Outcome> execute_without_session(const std::string& input, const term::Style& style);

// Returns the outcome as --json prints it, as one entry of "results".
Json to_json(const Outcome& outcome);

}  // namespace am::inspect
