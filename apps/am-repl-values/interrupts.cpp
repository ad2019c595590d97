#include "interrupts.h"

#include <csignal>

namespace am_repl {

void Interrupts::handle() { scope_.emplace({SIGINT, SIGWINCH, SIGCONT}); }

bool Interrupts::came() {
  if (!scope_) return came_;
  for (const int signal : scope_->take()) {
    if (signal == SIGINT) came_ = true;
    if (signal == SIGWINCH) resized_ = true;
    if (signal == SIGCONT) continued_ = true;
  }
  return came_;
}

bool Interrupts::take_resize() {
  came();
  return resized_.exchange(false);
}

bool Interrupts::take_continued() {
  came();
  return continued_.exchange(false);
}

void Interrupts::clear() {
  came();
  came_ = false;
}

}  // namespace am_repl
