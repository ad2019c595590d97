// Runs the commands of a script and prints their outcomes.
#pragma once

#include <functional>
#include <string>

#include "am/base/json.h"
#include "am/inspect/interpreter.h"
#include "common/output.h"

namespace am_repl {

// Reads the next part of a script: appends it to `text` and returns true, or returns false at the
// end of the script.
using Source = std::function<bool(std::string& text)>;
Source from_text(std::string text);
// The returned function throws am::Error(kIo) on a read error.
Source from_file_descriptor(int fd);

// Runs the script's commands up to the first that fails or quits. Returns the exit status: 0, or 1
// after a failed command. Error messages begin with `name`, the script's file, and a line number,
// unless `name` is empty. If `results` is set, each outcome's JSON is appended to `results` and
// nothing is printed.
int run_script(am::inspect::Interpreter& interpreter, const Source& source,
               const am_apps::Output& output, am::Json* results, const std::string& name = {});

// Prints the outcome of a command or, if `results` is set, appends its JSON to `results`. An error
// message begins with `place`. `print` prints the text of a result; without it, the text goes to
// stdout. Returns false if the script must end after this command.
using Print = std::function<void(const std::string& text)>;
bool show(const am::inspect::Outcome& outcome, const am_apps::Output& output, am::Json* results,
          const std::string& place = {}, const Print& print = {});

}  // namespace am_repl
