// Ctrl-C, as a flag for commands that run and as a descriptor for the prompt that waits.
#pragma once

#include <optional>

#include "am/launch/supervise/signal_scope.h"

namespace am_repl {

class Interrupts {
 public:
  // From now on SIGINT no longer ends the process.
  void handle();
  // Whether one came since clear(). Never before handle().
  bool came();
  void clear();
  // Readable while one came that nobody has asked about; -1 before handle().
  int fd() const { return scope_ ? scope_->fd() : -1; }

 private:
  std::optional<am::launch::SignalScope> scope_;
  bool came_ = false;
};

}  // namespace am_repl
