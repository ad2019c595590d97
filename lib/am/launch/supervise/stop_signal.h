// Inside a rank: SIGTERM and SIGINT ask for a clean stop, at the end of the step; SIGUSR1 and
// SIGUSR2 for a checkpoint, after which training goes on.
//
//   launch::StopSignal stop;      // before the first tensor operation
//   while (step < max_steps && !stop.requested()) {
//     train_step();
//     if (stop.take_save_request()) save();
//   }
//   save();
//
// A later SIGTERM or SIGINT has its default action: it kills. One that comes within a second of the
// first is the same request: a terminal's Ctrl-C reaches a rank both directly and through a
// launcher such as torchrun, and timeout(1) signals its child and its own process group.
#pragma once

#include <csignal>
#include <utility>
#include <vector>

#include "am/launch/supervise/signal_thread.h"

namespace am::launch {

// Installs the handlers, and puts the old ones back at the end of its life. One at a time in a
// process, on the thread that made it. Where the program has no SignalThread yet, it makes one:
// read there what that means for threads that are older.
class StopSignal {
 public:
  explicit StopSignal(double same_request_seconds = 1.0);
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();

  bool requested() const;
  // The signal that asked; 0 for none, or when request() did.
  int signal() const;
  // Asks for a stop from inside the program, e.g. on a command from outside.
  void request();

  // Whether a checkpoint was asked for since the last call.
  bool take_save_request() const;

 private:
  SignalThread thread_;
  std::vector<std::pair<int, struct sigaction>> old_;
};

}  // namespace am::launch
