#include "interrupts.h"

#include <csignal>

namespace am_repl {

void Interrupts::handle() { scope_.emplace({SIGINT}); }

bool Interrupts::came() {
  if (scope_ && !scope_->take().empty()) came_ = true;
  return came_;
}

void Interrupts::clear() {
  came();
  came_ = false;
}

}  // namespace am_repl
