#include "interrupts.h"

#include <csignal>

namespace am_repl {

void Interrupts::handle() { scope_.emplace({SIGINT, SIGWINCH}); }

bool Interrupts::came() {
  if (!scope_) return came_;
  for (const int signal : scope_->take()) (signal == SIGINT ? came_ : resized_) = true;
  return came_;
}

bool Interrupts::take_resize() {
  came();
  return resized_.exchange(false);
}

void Interrupts::clear() {
  came();
  came_ = false;
}

}  // namespace am_repl
