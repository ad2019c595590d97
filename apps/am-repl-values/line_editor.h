// Interactive line input with editing, history, completion and Ctrl-C, on libedit.
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
    kInterrupted,  // Ctrl-C; the line is discarded
    kEnd,          // Ctrl-D on an empty line
  };
  Kind kind = Kind::kEnd;
  std::string text;  // without its newline
};

class LineEditor {
 public:
  // Returns completions for the text before the cursor.
  using Completer = std::function<am::inspect::Completion(std::string_view before_cursor)>;

  virtual ~LineEditor() = default;
  virtual Line read(const std::string& prompt) = 0;
  // Adds a line to the history. Lines that begin with a blank are skipped, as in a shell.
  virtual void remember(const std::string& text) = 0;
};

struct LineEditorOptions {
  LineEditor::Completer completer;
  am::term::Style style;
  Interrupts* interrupts = nullptr;  // handle() was called; must outlive the editor
  // Created if missing, readable by its owner only. Without a path, or where it cannot be written,
  // no history is kept.
  std::filesystem::path history;
};

// Returns an editor on this process's terminal.
std::unique_ptr<LineEditor> make_line_editor(LineEditorOptions options);

// $XDG_STATE_HOME/am/history, otherwise ~/.local/state/am/history; empty without a home directory.
std::filesystem::path history_file();

}  // namespace am_repl
