// Runs commands and shows what they answer: from a script, or at a prompt.
#pragma once

#include <functional>
#include <string>

#include "am/base/json.h"
#include "am/inspect/interpreter.h"
#include "am/term/style.h"
#include "line_editor.h"

namespace am_repl {

// Where a script's text comes from, piece by piece: appends to `text`; false at the end.
using Source = std::function<bool(std::string& text)>;
Source from_text(std::string text);
// Throws am::Error(kIo) when it cannot be read.
Source from_file_descriptor(int fd);

// Stops at the first command that fails. Exit status: 0, or 1 after a failed command.
// With `results`, entries of INTERFACE's "results" are added to it and nothing is printed.
int run_script(am::inspect::Interpreter& interpreter, const Source& source, am::Json* results);

// Until Ctrl-D or `quit`; 1 when the session broke. `clear_interrupt` is called before each
// command.
int run_prompt(am::inspect::Interpreter& interpreter, LineEditor& editor,
               const std::function<void()>& clear_interrupt);

// "error: ..." and its help on stderr.
void print_error(const std::string& message, const std::string& hint, const am::term::Style& style);

}  // namespace am_repl
