// Runs the commands of a script and prints their outcomes.
#pragma once

#include <functional>
#include <string>

#include "am/base/json.h"
#include "am/inspect/interpreter.h"
#include "common/output.h"

namespace am_repl {

// Function that reads the next part of a script: appends it to `text` and returns true, or returns
// false at the end of the script.
using Source = std::function<bool(std::string& text)>;
Source from_text(std::string text);
// Returns a Source that reads from the descriptor. It throws am::Error(kIo) on a read error.
Source from_file_descriptor(int fd);

// Runs the commands of the script until one fails or is `quit`. Returns the exit status: 0, or 1
// after a failed command. If `name`, the file of the script, is not empty, error messages begin
// with it and a line number. If `results` is not null, the JSON of each outcome is appended to it
// and nothing is printed.
int run_script(am::inspect::Interpreter& interpreter, const Source& source,
               const am_apps::Output& output, am::Json* results, const std::string& name = {});

// Prints the outcome of a command or, if `results` is not null, appends its JSON to `results`. An
// error message begins with `place`. `print` prints the text of a result; if it is empty, the text
// is written to stdout. Returns false if the script must end after this command.
using Print = std::function<void(const std::string& text)>;
bool show(const am::inspect::Outcome& outcome, const am_apps::Output& output, am::Json* results,
          const std::string& place = {}, const Print& print = {});

}  // namespace am_repl
