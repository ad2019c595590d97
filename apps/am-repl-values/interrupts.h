// Handles the signals that arrive while the prompt is open. Ctrl-C sets a flag, which a running
// command polls. A resize of the window and the continuation after Ctrl-Z set flags too. Each
// signal also makes a file descriptor readable, which wakes the prompt while it waits for input.
#pragma once

#include <atomic>
#include <optional>

#include "am/launch/supervise/signal_scope.h"

namespace am_repl {

class Interrupts {
 public:
  // Installs the handlers: afterwards SIGINT does not end the process, and SIGWINCH and
  // SIGCONT are recorded.
  void handle();
  // Returns whether a SIGINT arrived since the last call of clear(); false before handle() was
  // called. Thread-safe.
  bool came();
  void clear();
  // Returns whether the window was resized since the last call of this function.
  bool take_resize();
  // Returns whether the process was stopped and continued since the last call of this function.
  bool take_continued();
  // Returns a file descriptor that is readable while a signal has arrived that none of the
  // functions above has processed; -1 before handle() was called.
  int fd() const { return scope_ ? scope_->fd() : -1; }

 private:
  std::optional<am::launch::SignalScope> scope_;
  std::atomic<bool> came_ = false;
  std::atomic<bool> resized_ = false;
  std::atomic<bool> continued_ = false;
};

}  // namespace am_repl
