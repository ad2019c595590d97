// Ctrl-C, as a flag for commands that run and as a descriptor for the prompt that waits; and
// whether the window has got another size meanwhile.
#pragma once

#include <atomic>
#include <optional>

#include "am/launch/supervise/signal_scope.h"

namespace am_repl {

class Interrupts {
 public:
  // From now on SIGINT no longer ends the process, and SIGWINCH is heard.
  void handle();
  // Whether one came since clear(). Never before handle(). From any thread.
  bool came();
  void clear();
  // Whether the window was resized since the last call.
  bool take_resize();
  // Readable while something came that nobody has asked about; -1 before handle().
  int fd() const { return scope_ ? scope_->fd() : -1; }

 private:
  std::optional<am::launch::SignalScope> scope_;
  std::atomic<bool> came_ = false;
  std::atomic<bool> resized_ = false;
};

}  // namespace am_repl
