// Runs the commands of a script and prints their outcomes.
#pragma once

#include <functional>
#include <string>

#include "am/base/json.h"
#include "am/inspect/interpreter.h"
#include "common/output.h"

namespace am_repl {

// Source of a script's text: appends the next piece to `text`; returns false at the end.
using Source = std::function<bool(std::string& text)>;
Source from_text(std::string text);
// Throws am::Error(kIo) on a read error.
Source from_file_descriptor(int fd);

// Runs commands up to the first that fails or quits. Returns the exit status: 0, or 1 after a
// failed command. `name`: file name that errors cite with a line number; errors cite neither if it
// is empty. With `results`, each outcome's JSON is appended to it and nothing is printed.
int run_script(am::inspect::Interpreter& interpreter, const Source& source,
               const am_apps::Output& output, am::Json* results, const std::string& name = {});

// Prints a command's outcome, or appends it to `results`. `place` prefixes the error message,
// `print` prints the text of a result. Returns false if the script must end here.
using Print = std::function<void(const std::string& text)>;
bool show(const am::inspect::Outcome& outcome, const am_apps::Output& output, am::Json* results,
          const std::string& place = {}, const Print& print = {});

}  // namespace am_repl
