// Captures stack traces of a thread at the request of another thread. Requires neither a debugger
// nor privileges, and works while the probed thread is blocked.
//
//   StackProbe probe(world.device());         // on the thread to be probed
//   probe.take(1s);                           // on another thread: the probed thread's stack
//   probe.take_of_device(1s);                 // the stack of the GPU's autograd thread
//
// autograd runs the backward of GPU tensors in a separate thread, and the thread that called
// backward() waits for it. The backward of CPU tensors runs in the calling thread.
//
// The probed thread receives a signal, whose handler calls backtrace() and writes the addresses to
// a pipe. The requesting thread then looks up the functions' names. The handler runs on an
// alternate stack: see Note [No handler on a computing thread]
// (launch/supervise/signal_thread.cpp).
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
  // Creates a probe of the calling thread and, if the device is a GPU, of the GPU's autograd
  // thread. Only one probe of a process is active at a time; other probes return empty stacks.
  // Throws Error(kRuntime) if no file descriptor is free.
  explicit StackProbe(c10::Device device = c10::Device(c10::kCPU));
  StackProbe(const StackProbe&) = delete;
  StackProbe& operator=(const StackProbe&) = delete;
  // Must run on the thread that called the constructor.
  ~StackProbe();

  // Returns the frames of the probed thread, innermost first; empty if the thread did not answer
  // within `patience`.
  std::vector<std::string> take(std::chrono::milliseconds patience);
  // Returns the frames of the device's autograd thread, innermost first; empty if the device has no
  // autograd thread, or if this thread did not answer within `patience`.
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
