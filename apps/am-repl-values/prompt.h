// Interactive prompt for commands.
#pragma once

#include <functional>

#include "am/inspect/interpreter.h"
#include "common/output.h"
#include "line_editor.h"

namespace am_repl {

// Runs commands until Ctrl-D or `quit`. `clear_interrupt` resets the flag that
// a Ctrl-C sets; called after the Ctrl-C was handled.
void run_prompt(am::inspect::Interpreter& interpreter, LineEditor& editor,
                const am_apps::Output& output, const std::function<void()>& clear_interrupt);

}  // namespace am_repl
