// What both parts of am-repl do around a session: read the script, open the target, report.
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

// -c's text or -f's file; nothing where commands come from standard input. Throws am::Error(kIo)
// for a file that cannot be read.
std::optional<std::string> script_text(const Options& options);

// What the command line says of the session.
am::inspect::SessionOptions session_options(const Options& options);

// The session behind the user's console. Tells what is worth telling of it at its beginning.
std::unique_ptr<am::inspect::Console> console_of(std::unique_ptr<am::inspect::Interpreter> opened,
                                                 const Options& options);

// Runs a script to its end; the exit status. `report` as in reported().
int run_to_end(am::inspect::Console& console, const Source& script, const Options& options,
               am::Json* report);

// Calls `run` with what --json prints, or with null; an error becomes a part of it, and goes on to
// the caller, who says it to people.
int reported(const Options& options, const std::function<int(am::Json* report)>& run);

}  // namespace am_repl
