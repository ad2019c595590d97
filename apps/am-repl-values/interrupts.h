// Signals of the prompt. Ctrl-C sets a flag, which a running command polls, and makes a file
// descriptor readable, which wakes the prompt from its wait for input. A resize of the window sets
// a second flag.
#pragma once

#include <atomic>
#include <optional>

#include "am/launch/supervise/signal_scope.h"

namespace am_repl {

class Interrupts {
 public:
  // From this call on, SIGINT no longer ends the process and SIGWINCH is recorded.
  void handle();
  // Returns whether a SIGINT arrived since clear(); false before handle(). Thread-safe.
  bool came();
  void clear();
  // Returns whether the window was resized since the last call.
  bool take_resize();
  // Returns a descriptor that is readable while a signal is pending that no call has reported; -1
  // before handle().
  int fd() const { return scope_ ? scope_->fd() : -1; }

 private:
  std::optional<am::launch::SignalScope> scope_;
  std::atomic<bool> came_ = false;
  std::atomic<bool> resized_ = false;
};

}  // namespace am_repl
