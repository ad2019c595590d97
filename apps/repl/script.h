// Code shared by am-repl and am-repl-values: reads the script, creates session options and console,
// runs the script and reports the results.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "am/base/json.h"
#include "am/inspect/console.h"
#include "am/inspect/target.h"
#include "repl/options.h"
#include "repl/shell.h"

namespace am_repl {

// Returns the commands in the value of -c or in the file of -f; nothing if am-repl reads commands
// from standard input. Throws am::Error(kIo) if the file cannot be read.
std::optional<std::string> script_text(const Options& options);

// Returns whether am-repl opens a prompt: standard input and output are a terminal, and the command
// line contains none of -c, -f and --json.
bool is_interactive(const Options& options);

// Converts the command line to session options.
am::inspect::SessionOptions session_options(const Options& options);

// Returns a console for the interpreter. Prints the note of the session, if any, on stderr.
std::unique_ptr<am::inspect::Console> console_of(std::unique_ptr<am::inspect::Interpreter> opened,
                                                 const Options& options);

// Returns the runs in the target folders; empty if the only target is not a run folder. Throws
// am::Error(kUsage) if one of several targets is not a run folder.
am::inspect::Runs runs_of(const Options& options);

// Runs the script to its end and returns the exit status. If `report` is null, prints the results;
// otherwise appends them to the list "results" of `report`.
int run_to_end(am::inspect::Console& console, const Source& script, const Options& options,
               am::Json* report);

// Calls `run` and returns its result. Without --json, passes null to `run`. With --json, passes an
// object for the results, and prints this object after `run` has ended. If `run` throws an
// am::Error, first adds the error to the object, and rethrows the error after printing; the caller
// prints the error as text.
int reported(const Options& options, const std::function<int(am::Json* report)>& run);

}  // namespace am_repl
