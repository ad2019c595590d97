// Runs commands and shows what they answer: from a script, or at a prompt.
#pragma once

#include <functional>
#include <string>

#include "am/base/json.h"
#include "am/inspect/interpreter.h"
#include "common/output.h"
#include "line_editor.h"

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

// Until Ctrl-D or `quit`. `clear_interrupt` forgets a Ctrl-C that was obeyed.
void run_prompt(am::inspect::Interpreter& interpreter, LineEditor& editor,
                const am_apps::Output& output, const std::function<void()>& clear_interrupt);

}  // namespace am_repl
