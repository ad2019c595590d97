// Defines and runs the commands of am-repl. Each command is a `Command` value in a table. Dispatch,
// `help`, completion, the manual page and the JSON Schema of answers (answers.h) are generated from
// this table.
//
//   Outcome outcome = execute(session, "stats *.norm.weight");
//   std::cout << (outcome.error ? outcome.error->message : outcome.result.text);
//
// The table is in commands/rows_*.cpp. Functions of commands that read values of tensors are not in
// the table: a session receives them when it is opened (values/commands/functions.cpp). Thus a
// program without libtorch lists these commands, but cannot run them.
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
#include "am/run_folder/run_folder.h"

namespace am::inspect {

// Kind of the operands of a command; determines what the Tab key completes.
enum class Operand { kNone, kParameter, kModule, kText, kPath, kCommand, kField };

struct Option {
  std::string_view name;  // name with dashes, for example "--tokens"
  // Name of the value, for example "N", or the valid values, for example "mean|max". Empty if the
  // option is a flag without a value.
  std::string_view value;
  std::string_view help;
};

// Operands and options of a command line, without the name of the command.
struct Arguments {
  std::vector<std::string> words;
  std::vector<bool> quoted;  // for each of `words`: true if the word was quoted
  std::map<std::string, std::string, std::less<>> options;

  // Returns the words joined by single spaces.
  std::string text() const;
  bool has(std::string_view option) const { return options.find(option) != options.end(); }
  // Returns the option's value, or `fallback` if the option was not given.
  std::string value(std::string_view option, std::string_view fallback) const;
  // Returns the element of `choices` whose `name` equals the value of the option, or `fallback` if
  // the option was not given. Throws Error(kUsage), which lists the choices, if no name matches.
  template <typename Choice, size_t kCount>
  const Choice& one_of(const Choice (&choices)[kCount], std::string_view option,
                       std::string_view fallback) const {
    const std::string given = value(option, fallback);
    std::vector<std::string> names;
    for (const Choice& choice : choices) {
      if (choice.name == given) return choice;
      names.emplace_back(choice.name);
    }
    throw Error(ErrorKind::kUsage, cat(option, " `", given, "` is not one of ", join(names, ", ")));
  }
  // Return the option's value, or `fallback` if the option was not given. Throw Error(kUsage),
  // which names the option, if the value is not a number in [low, high].
  int64_t integer(std::string_view option, int64_t fallback, int64_t low,
                  int64_t high = std::numeric_limits<int64_t>::max()) const;
  double number(std::string_view option, double fallback, double low, double high) const;
};

enum class RowKind { kText, kCount, kNumber, kBytes };

struct RowColumn {
  std::string key;    // key of the field in the JSON object of a row
  std::string title;  // title of the column; empty: `key` is the title
  RowKind kind = RowKind::kText;
};

// The table in which an answer shows its rows. Filters behind a pipe change the rows and draw the
// table again.
struct RowTable {
  std::vector<RowColumn> columns;  // empty: one column for each field of the JSON rows
  // The rows as the table shows them, one for each JSON row, in the same order. Null: the table
  // shows the JSON rows.
  Json shown = nullptr;
  int digits = 6;  // number of significant digits
};

struct Result {
  Json json = Json::object();  // fields of the JSON answer
  // The answer as text that ends with a newline. May be empty if
  // Session::for_programs() is true, because the text is then not printed.
  std::string text;
  std::string svg;  // the answer as a picture; empty for commands that draw none
  RowTable table;
  // Set if the answer was shown while the command ran, by Session::live_text() or as a dashboard.
  // `text` is then not printed again.
  bool printed = false;
  bool quit = false;  // set if the session ends after this command
  // Set if a check, for example `verify`, found a problem. A script then stops, as after an error.
  bool failed = false;
};

class Console;

using TextFunction = Result(const term::Style& style, const Arguments& arguments);
// Changes the JSON rows of an answer, and changes `table` so that the table shows the new rows.
using RowsFunction = void(Json& rows, RowTable& table, const Arguments& arguments);
using Runs = std::vector<run_folder::RunFolder>;
using RunsFunction = Result(const Runs& runs, const Arguments& arguments, const term::Style& style);
using PictureFunction = Result(const Json& rows, const Arguments& arguments,
                               const term::Style& style);
using ConsoleFunction = Result(Console& console, const Arguments& arguments);

// The actions of commands: one struct for each kind of action. Each command has one action.

// Runs on all ranks of the session.
struct OnRanks {
  RankFunction& function;
};

// Runs on all ranks of the session and reads values of tensors. Session::value_function() returns
// the function of the command.
struct OnValues {};

// Runs without a session, for example `help`, even while the ranks are busy.
struct WithoutSession {
  TextFunction& function;
};

// Runs behind a pipe, for example `sort` in `stats | sort norm`, and changes the rows of the answer
// that the pipe passes on.
struct BehindPipe {
  RowsFunction& function;
};

// Runs in the console (console.h).
struct InConsole {
  ConsoleFunction& function;
  bool of_job = false;  // whether the session must be attached to a running job
};

// Reads the metrics and plans of the session's runs, in the console.
struct OfRuns {
  RunsFunction& function;
};

// Runs in a running job (live/attach_server.h).
struct InJob {
  bool without_job = false;  // whether sessions without a job run the command too
  bool lasts = false;        // the command waits for steps of the job, and may be silent for long
};

using Action =
    std::variant<OnRanks, OnValues, WithoutSession, BehindPipe, InConsole, OfRuns, InJob>;

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
  // Fields of the JSON answer in addition to those of every answer, in the notation of
  // am/base/json_type.h; empty: none.
  std::string_view json = {};
  std::string_view also = {};          // further names of the command, for example "exit q"
  Operand completes = Operand::kNone;  // kind of the operands, for completion
  std::string_view keywords = {};      // words that may be operands too, for example "digits dtype"
  WordCount words = {};                // smallest and largest number of operands
  std::span<const Option> options = {};
  Action action;
  // Draws the rows of another command's answer, for a command that runs alone or behind a pipe (at
  // present `plot`). Null for all other commands.
  PictureFunction* of_rows = nullptr;
  // Key of a list in each row of the answer. Behind a pipe, the entries of these lists are the
  // rows, each with the other fields of its outer row. Empty: the answer's rows stay as they are.
  std::string_view nested_rows = {};

  // Whether the command may follow a pipe, as a filter or to draw rows.
  bool can_follow_pipe() const { return as<BehindPipe>() != nullptr || of_rows != nullptr; }
  // Returns the operands and options, for example "PARAM [--bins N]"; may be empty.
  std::string takes() const;
  // Returns the name, operands and options, for example "hist PARAM [--bins N]".
  std::string usage() const;
  // Returns the action if it is of kind `Kind`; otherwise null.
  template <typename Kind>
  const Kind* as() const {
    return std::get_if<Kind>(&action);
  }
  // Returns whether the command runs a function that reads values of tensors, in a session without
  // a job.
  bool reads_values() const;
};

// Returns all commands, in the order of the table. A program that links only libautomesh_core can
// run only the commands that read no values of tensors.
std::span<const Command* const> commands();
// Returns the command with this name, which is Command::name or one of Command::also; null if there
// is none.
const Command* find_command(std::string_view name);
// Returns the command that find_command() returns. If there is none, throws Error(kUsage), whose
// hint is the nearest name or `help`.
const Command& named_command(const std::string& name);
// Returns the command that the first word of the line names; null if no command has this name.
const Command* command_of(const std::string& input);

// A command line that has been parsed.
struct ParsedCommand {
  const Command* command = nullptr;
  Arguments arguments;
};
// Parses a command line without running it. Throws Error(kUsage) if it is not valid, for example
// for an unknown command, an unknown option or a wrong number of operands.
ParsedCommand parse_command(const std::string& input);
// Parses the text after a pipe: a filter, or a command that draws rows. Throws the errors of
// parse_command(), and Error(kUsage) for a command that may not follow a pipe.
ParsedCommand parse_filter(const std::string& stage);

struct CommandError {
  ErrorKind kind = ErrorKind::kUsage;
  std::string message;
  std::string hint;

  // Returns whether the error ends the session. Failed ranks, a lost peer and internal errors end
  // the session; errors in a command line do not.
  bool fatal() const {
    return kind == ErrorKind::kRuntime || kind == ErrorKind::kPeer || kind == ErrorKind::kInternal;
  }
  Error as_error() const { return Error(kind, message, hint); }
};

struct Outcome {
  std::string input;    // the command line as typed
  std::string command;  // the command's name
  Result result;
  std::vector<std::string> filters;  // names of the filters that were applied to the answer's rows
  std::optional<CommandError> error;

  bool ok() const { return !error.has_value() && !result.failed; }
};

// Returns the outcome of a command that failed with `error`. `command` is the name of the command;
// empty if it is not known.
Outcome failed(const std::string& input, const std::string& command, const Error& error);

// Runs one command in the session. All ranks of the session must call execute() with the same
// input. Never throws: an exception becomes the error of the outcome.
Outcome execute(Session& session, const std::string& input);
// Parses a command line and calls `perform` with the command and its arguments, without a session.
// Never throws: an exception becomes the error of the outcome.
Outcome answer(const std::string& input,
               const std::function<Result(const Command&, const Arguments&)>& perform);
// Runs a command that needs no session (WithoutSession). Returns nullopt for any other input.
std::optional<Outcome> execute_without_session(const std::string& input, const term::Style& style);

// Returns the JSON that --json prints for the outcome: one entry of "results".
Json to_json(const Outcome& outcome);

}  // namespace am::inspect
