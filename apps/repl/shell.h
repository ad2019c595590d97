// Runs the commands of a script and shows what they answer.
#pragma once

#include <functional>
#include <string>

#include "am/base/json.h"
#include "am/inspect/interpreter.h"
#include "common/output.h"

namespace am_repl {

// Where a script's text comes from, piece by piece: appends to `text`; false at the end.
using Source = std::function<bool(std::string& text)>;
Source from_text(std::string text);
// Throws am::Error(kIo) when it cannot be read.
Source from_file_descriptor(int fd);

// Stops at the first command that fails. Exit status: 0, or 1 after a failed command.
// `name`: of the file whose lines errors name; empty: they name none. With `results`, entries of
// INTERFACE's "results" are added to it and nothing is printed.
int run_script(am::inspect::Interpreter& interpreter, const Source& source,
               const am_apps::Output& output, am::Json* results, const std::string& name = {});

// Shows what a command answered, or adds it to `results`; `place` says where the command stands,
// `print` shows its text. False when a script ends there.
using Print = std::function<void(const std::string& text)>;
bool show(const am::inspect::Outcome& outcome, const am_apps::Output& output, am::Json* results,
          const std::string& place = {}, const Print& print = {});

}  // namespace am_repl
