// Handles the signals of a rank. SIGTERM and SIGINT request a clean stop at the end of the step;
// SIGUSR1 and SIGUSR2 request a checkpoint, after which training continues.
//
//   launch::StopSignal stop;      // before the first tensor operation
//   while (step < max_steps && !stop.requested()) {
//     train_step();
//     if (stop.take_save_request()) save();
//   }
//   save();
//
// A second SIGTERM or SIGINT has its default action and kills the process, unless it arrives within
// a second of the first: a terminal's Ctrl-C reaches a rank both directly and through a launcher
// such as torchrun, and timeout(1) signals both its child and its own process group.
#pragma once

#include <csignal>
#include <utility>
#include <vector>

#include "am/launch/supervise/signal_thread.h"

namespace am::launch {

// Installs the handlers and restores the old ones on destruction. At most one may exist in a
// process at a time; destroy it on the thread that created it. Creates a SignalThread if the
// program has none; signal_thread.h describes the effect on existing threads.
class StopSignal {
 public:
  explicit StopSignal(double same_request_seconds = 1.0);
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();

  bool requested() const;
  // Returns the signal that requested the stop; 0 if there was none or if request() was called.
  int signal() const;
  // Requests a stop from within the program, e.g. on a command from outside.
  void request();

  // Returns whether a checkpoint was requested since the last call.
  bool take_save_request() const;

 private:
  SignalThread thread_;
  std::vector<std::pair<int, struct sigaction>> old_;
};

}  // namespace am::launch
