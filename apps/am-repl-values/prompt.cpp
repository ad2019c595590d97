#include "prompt.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "am/inspect/words.h"
#include "am/term/printable.h"
#include "am/term/style.h"
#include "pager.h"
#include "repl/shell.h"

namespace am_repl {

using am::inspect::Interpreter;
using am::inspect::Outcome;
using am::inspect::SplitCommands;

namespace {

// Returns whether the next line continues this one: an open quote, or a backslash at the end.
bool goes_on(const std::string& text) {
  const SplitCommands split = am::inspect::split_commands(text, false);
  return split.open_quote || (!text.empty() && text.back() == '\\');
}

}  // namespace

void run_prompt(Interpreter& interpreter, LineEditor& editor, const am_apps::Output& output,
                const std::function<void()>& clear_interrupt) {
  std::string text;
  while (true) {
    const Line line =
        editor.read(text.empty() ? am::term::echo(interpreter.facts().title) + "> " : "...> ");
    if (line.kind == Line::Kind::kEnd) return;
    if (line.kind == Line::Kind::kInterrupted) {
      clear_interrupt();
      text.clear();
      continue;
    }
    text += line.text;
    if (goes_on(text)) {
      text += '\n';
      continue;
    }
    editor.remember(text);
    for (const std::string& command :
         am::inspect::split_commands(std::exchange(text, {}), true).commands) {
      interpreter.set_width(am::term::terminal_width(STDOUT_FILENO, output.out.width));
      const Outcome outcome = interpreter.run(command);
      const bool next = show(outcome, output, nullptr, {}, show_paged);
      if (outcome.result.quit) return;
      if (!next) break;
    }
    clear_interrupt();  // a Ctrl-C that came too late for this command must not cancel the next one
  }
}

}  // namespace am_repl
