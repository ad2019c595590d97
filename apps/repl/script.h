// Session handling shared by am-repl and am-repl-values: reads the script, opens the target,
// reports.
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

// Returns -c's text or -f's file; nothing if commands come from standard input. Throws
// am::Error(kIo) if the file cannot be read.
std::optional<std::string> script_text(const Options& options);

// Returns the session's options from the command line.
am::inspect::SessionOptions session_options(const Options& options);

// Returns a console around the interpreter. Prints the session's note, if any, on stderr.
std::unique_ptr<am::inspect::Console> console_of(std::unique_ptr<am::inspect::Interpreter> opened,
                                                 const Options& options);

// Runs a script to its end and returns the exit status. `report` as in reported().
int run_to_end(am::inspect::Console& console, const Source& script, const Options& options,
               am::Json* report);

// Calls `run` with the object that --json prints, or with null without --json. An error is added to
// the object and rethrown, so that the caller also prints it as text.
int reported(const Options& options, const std::function<int(am::Json* report)>& run);

}  // namespace am_repl
