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
// A second SIGTERM or SIGINT has its default action and kills the process. However, a signal within
// `same_request_seconds` of the first is ignored: a terminal's Ctrl-C reaches a rank both directly
// and through a launcher such as torchrun, and timeout(1) signals both its child and its own
// process group.
#pragma once

#include <csignal>
#include <utility>
#include <vector>

#include "am/launch/supervise/signal_thread.h"

namespace am::launch {

// Installs the handlers; the destructor restores the old handlers. SIGINT, SIGUSR1 and SIGUSR2 stay
// ignored if the process ignores them. A process may have at most one StopSignal at a time, to be
// destroyed on the thread that created it. Creates a SignalThread if the program has none;
// signal_thread.h describes the effect on existing threads.
class StopSignal {
 public:
  explicit StopSignal(double same_request_seconds = 1.0);
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();

  bool requested() const;
  // Returns the first SIGTERM or SIGINT; 0 if none has arrived.
  int signal() const;
  // Requests a stop from within the program, for example if the rank receives a stop command.
  void request();

  // Returns whether a checkpoint was requested since the last call.
  bool take_save_request() const;

 private:
  SignalThread thread_;
  std::vector<std::pair<int, struct sigaction>> old_;
};

}  // namespace am::launch
