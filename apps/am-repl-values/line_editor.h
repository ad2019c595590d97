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
  std::string text;  // the line without its newline; set only for kText
};

class LineEditor {
 public:
  // Function that returns completions for the text before the cursor.
  using Completer = std::function<am::inspect::Completion(std::string_view before_cursor)>;

  virtual ~LineEditor() = default;
  virtual Line read(const std::string& prompt) = 0;
  // Adds the line to the history, except if it is empty or begins with a blank (as in a shell).
  virtual void remember(const std::string& text) = 0;
};

struct LineEditorOptions {
  LineEditor::Completer completer;
  am::term::Style style;
  // Reports Ctrl-C and resizes of the window. Its handle() must have been called, and it must
  // outlive the editor.
  Interrupts* interrupts = nullptr;
  // File that stores the history across sessions. A missing file is created, readable only by its
  // owner. If the path is empty or cannot be written, the history is lost at the end of the
  // session.
  std::filesystem::path history;
};

// Returns an editor on this process's terminal.
std::unique_ptr<LineEditor> make_line_editor(LineEditorOptions options);

// Returns the path of the history file: $XDG_STATE_HOME/am/history if this variable is set,
// otherwise ~/.local/state/am/history; empty without a home directory.
std::filesystem::path history_file();

}  // namespace am_repl
