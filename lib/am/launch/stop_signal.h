// Inside a rank: SIGTERM and SIGINT ask for a clean stop, at the end of the step.
//
//   launch::StopSignal stop;
//   while (step < max_steps && !stop.requested()) train_step();
//   save();
//
// A later signal has its default action: it kills. One that comes within a second of the first is
// the same request: a terminal's Ctrl-C reaches a rank both directly and through a launcher such as
// torchrun.
#pragma once

#include <csignal>

namespace am::launch {

// Installs the handlers, and puts the old ones back at the end of its life. One at a time in a
// process.
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

 private:
  struct sigaction old_term_ = {};
  struct sigaction old_int_ = {};
};

}  // namespace am::launch
