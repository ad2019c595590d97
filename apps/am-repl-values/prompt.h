// Commands typed at a prompt.
#pragma once

#include <functional>

#include "am/inspect/interpreter.h"
#include "common/output.h"
#include "line_editor.h"

namespace am_repl {

// Until Ctrl-D or `quit`. `clear_interrupt` forgets a Ctrl-C that was obeyed.
void run_prompt(am::inspect::Interpreter& interpreter, LineEditor& editor,
                const am_apps::Output& output, const std::function<void()>& clear_interrupt);

}  // namespace am_repl
