// Reading lines from a person: editing, history, completion, Ctrl-C. libedit stands behind it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "am/inspect/completion.h"
#include "am/term/style.h"
#include "interrupts.h"

namespace am_repl {

struct Line {
  enum class Kind {
    kText,
    kInterrupted,  // Ctrl-C: the line was thrown away
    kEnd,          // Ctrl-D on an empty line
  };
  Kind kind = Kind::kEnd;
  std::string text;  // without its newline
};

class LineEditor {
 public:
  // What stands before the cursor, and what could stand there.
  using Completer = std::function<am::inspect::Completion(std::string_view before_cursor)>;

  virtual ~LineEditor() = default;
  virtual Line read(const std::string& prompt) = 0;
  // Lines that begin with a blank are not kept, as in the shell.
  virtual void remember(const std::string& text) = 0;
};

struct LineEditorOptions {
  LineEditor::Completer completer;
  am::term::Style style;
  Interrupts* interrupts = nullptr;  // handled by now; outlives the editor
  // Made when missing, readable by its owner alone. Empty, or in a place that cannot be written:
  // none is kept.
  std::filesystem::path history;
};

// On this process's terminal.
std::unique_ptr<LineEditor> make_line_editor(LineEditorOptions options);

// $XDG_STATE_HOME/am/history, else ~/.local/state/am/history; empty without a home.
std::filesystem::path history_file();

}  // namespace am_repl
