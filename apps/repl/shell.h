// Runs the commands of a script and prints their outcomes.
#pragma once

#include <functional>
#include <string>

#include "am/base/json.h"
#include "am/inspect/interpreter.h"
#include "common/output.h"

namespace am_repl {

// Function that reads the next part of a script. Appends the part to `text` and returns true;
// returns false at the end of the script.
using Source = std::function<bool(std::string& text)>;
// Returns a Source whose only part is the text.
Source from_text(std::string text);
// Returns a Source that reads from the descriptor. This Source throws am::Error(kIo) if a read
// fails.
Source from_file_descriptor(int fd);

struct ScriptOptions {
  std::string name = {};    // file of the script; error messages begin with it and a line number
  bool keep_going = false;  // run the other commands after one that fails or finds a problem
};

// Runs the commands of the script until the command `quit`. Without keep_going, also stops after
// the first command that fails or finds a problem (Result::failed). In this case, prints the
// commands that were already read from the script and are not run. Returns the exit status:
// kInvalid if a command failed or the script ends inside a quote, otherwise kFound if a command
// found a problem, otherwise 0. If `report` is not null, prints nothing. Instead, appends the JSON
// of each outcome to the report's list "results", and the commands that are not run to its list
// "not_run".
int run_script(am::inspect::Interpreter& interpreter, const Source& source,
               const am_apps::Output& output, am::Json* report, const ScriptOptions& options = {});

// Prints the outcome of a command or, if `results` is not null, appends the outcome's JSON to
// `results`. An error message begins with `place`. `print` prints the text of a result; if `print`
// is empty, the text is written to stdout. Returns false if the command failed, found a problem or
// is `quit`.
using Print = std::function<void(const std::string& text)>;
bool show(const am::inspect::Outcome& outcome, const am_apps::Output& output, am::Json* results,
          const std::string& place = {}, const Print& print = {});

}  // namespace am_repl
