// Where a thread is, written down by itself when another thread of the process asks: no debugger,
// no rights, and it need not come back from what it does.
//
//   StackProbe probe;                         // on the thread that is asked about
//   probe.take(1s)                            // on another: "am::train::Step::backward(..) +0x1c"
//
// A signal is directed at the thread; its handler calls backtrace() and writes the addresses to a
// pipe. Names are found afterwards, by whoever asked. The handler runs on an alternate stack: see
// Note [No handler on a computing thread] (launch/supervise/signal_thread.cpp).
#pragma once

#include <pthread.h>

#include <chrono>
#include <csignal>
#include <mutex>
#include <string>
#include <vector>

#include "am/launch/supervise/signal_thread.h"

namespace am::live {

class StackProbe {
 public:
  // Of the calling thread. One at a time in a process: another one has nothing to say. Throws
  // Error(kRuntime) without descriptors.
  StackProbe();
  StackProbe(const StackProbe&) = delete;
  StackProbe& operator=(const StackProbe&) = delete;
  // On the same thread.
  ~StackProbe();

  // Innermost first. Empty where the thread wrote nothing in time.
  std::vector<std::string> take(std::chrono::milliseconds patience);

 private:
  launch::AlternateStack stack_;
  pthread_t thread_;
  bool active_ = false;
  int read_fd_ = -1;
  int write_fd_ = -1;
  struct sigaction before_ = {};
  sigset_t mask_before_ = {};
  std::mutex asking_;
};

}  // namespace am::live
