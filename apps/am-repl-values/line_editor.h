// Reads lines from a terminal with editing, history, completion and Ctrl-C. Built on libedit.
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
    kText,         // a line of input, in `text`
    kInterrupted,  // the user pressed Ctrl-C, which discards the line
    kEnd,          // the user pressed Ctrl-D on an empty line, or the input ended
  };
  Kind kind = Kind::kEnd;
  std::string text;  // the line without its newline; empty unless `kind` is kText
};

class LineEditor {
 public:
  // Returns completions for the text before the cursor.
  using Completer = std::function<am::inspect::Completion(std::string_view before_cursor)>;

  virtual ~LineEditor() = default;
  virtual Line read(const std::string& prompt) = 0;
  // Adds the line to the history, unless it begins with a blank (as in a shell) or is empty.
  virtual void remember(const std::string& text) = 0;
};

struct LineEditorOptions {
  LineEditor::Completer completer;
  am::term::Style style;
  // Source of Ctrl-C and of resizes. Its handle() must have been called; it must outlive the
  // editor.
  Interrupts* interrupts = nullptr;
  // File that stores the history across sessions. It is created if missing, readable by its owner
  // only. If the path is empty or cannot be written, the history ends with the session.
  std::filesystem::path history;
};

// Returns an editor on this process's terminal.
std::unique_ptr<LineEditor> make_line_editor(LineEditorOptions options);

// Returns the path of the history file: $XDG_STATE_HOME/am/history if that variable is set,
// otherwise ~/.local/state/am/history. Empty if there is no home directory either.
std::filesystem::path history_file();

}  // namespace am_repl
