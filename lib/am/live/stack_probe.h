// Stack traces of a thread, taken in the thread itself at the request of another one. Needs neither
// a debugger nor privileges, and works while the thread is blocked.
//
//   StackProbe probe(world.device());         // on the thread to be probed
//   probe.take(1s);                           // on another: "am::train::Step::backward(..) +0x1c"
//   probe.take_of_device(1s);                 // stack of a GPU's backward
//
// Backward of GPU tensors runs in a thread of autograd, while the thread that began it waits;
// backward of CPU tensors runs in the calling thread.
// A signal is directed at the thread; its handler calls backtrace() and writes the addresses to a
// pipe. The requesting thread looks up the names afterwards. The handler runs on an alternate
// stack: see Note [No handler on a computing thread] (launch/supervise/signal_thread.cpp).
#pragma once

#include <c10/core/Device.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "am/launch/supervise/signal_thread.h"

namespace am::live {

class StackProbe {
 public:
  // Probes the calling thread, and autograd's thread for the device if there is one. Only one probe
  // of a process is active at a time; others return empty stacks. Throws Error(kRuntime) if no
  // descriptor is free.
  explicit StackProbe(c10::Device device = c10::Device(c10::kCPU));
  StackProbe(const StackProbe&) = delete;
  StackProbe& operator=(const StackProbe&) = delete;
  // Must run on the constructing thread.
  ~StackProbe();

  // Returns the thread's frames, innermost first; empty if it did not answer in time.
  std::vector<std::string> take(std::chrono::milliseconds patience);
  // Returns the frames of autograd's thread for the device; empty if there is none.
  std::vector<std::string> take_of_device(std::chrono::milliseconds patience);

 private:
  std::vector<std::string> take_of(pthread_t thread, std::chrono::milliseconds patience);

  launch::AlternateStack stack_;
  pthread_t thread_;
  std::optional<pthread_t> device_thread_;
  bool active_ = false;
  int read_fd_ = -1;
  int write_fd_ = -1;
  struct sigaction before_ = {};
  sigset_t mask_before_ = {};
  std::mutex asking_;
};

}  // namespace am::live
