// Receives the signals of the prompt. Ctrl-C sets a flag, which a running command polls. A resize
// of the window sets a second flag. Each of these signals also makes a file descriptor readable,
// which wakes the prompt from its wait for input.
#pragma once

#include <atomic>
#include <optional>

#include "am/launch/supervise/signal_scope.h"

namespace am_repl {

class Interrupts {
 public:
  // From this call on, SIGINT no longer ends the process and SIGWINCH is recorded.
  void handle();
  // Returns whether a SIGINT arrived since the last call of clear(); false before handle() was
  // called. Thread-safe.
  bool came();
  void clear();
  // Returns whether the window was resized since the last call of this function.
  bool take_resize();
  // Returns a file descriptor that is readable while there is a signal that neither came() nor
  // take_resize() has read; -1 before handle() was called.
  int fd() const { return scope_ ? scope_->fd() : -1; }

 private:
  std::optional<am::launch::SignalScope> scope_;
  std::atomic<bool> came_ = false;
  std::atomic<bool> resized_ = false;
};

}  // namespace am_repl
