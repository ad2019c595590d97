// Handles signals on one thread of the process; the threads that compute are never interrupted.
//
//   int main() {
//     const launch::SignalThread signals;   // first: threads created later inherit the mask
//     launch::StopSignal stop;
//     ...
//   }
//
// See Note [No handler on a computing thread] in signal_thread.cpp. A program that embeds automesh
// and handles signals, or loads a library that does, should create a SignalThread as well, before
// its first tensor operation starts libtorch's threads: existing threads keep their mask.
#pragma once

#include <csignal>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <thread>

namespace am::launch {

// An alternate stack (sigaltstack) for handlers that run on the calling thread, created unless the
// thread already has one. Must be destroyed on the same thread.
class AlternateStack {
 public:
  AlternateStack();
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;
  ~AlternateStack();

 private:
  std::unique_ptr<std::byte[]> memory_;  // null: the thread already had a stack
};

// Blocks every asynchronous signal in the calling thread, and hence in threads that it creates
// later, and starts a thread that blocks none: the kernel delivers signals to that thread,
// regardless of their action. Signals that a thread raises itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
// SIGTRAP, SIGSYS, SIGABRT, SIGPIPE) and those of the terminal's job control (SIGTSTP, SIGTTIN,
// SIGTTOU) are not blocked.
//
// The destructor restores the mask and must run on the same thread. A second object has no effect
// while another exists. raise() targets the calling thread, where the signal stays pending: use
// kill(getpid(), ..) instead.
class SignalThread {
 public:
  // Throws Error(kRuntime) if the thread cannot be started.
  SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;
  ~SignalThread();

 private:
  AlternateStack stack_;
  sigset_t before_ = {};
  int end_fd_ = -1;  // event that ends the thread; -1: another SignalThread exists
  std::thread thread_;
};

// Calls sigaction() with SA_ONSTACK, and with SA_RESTART so that system calls in progress do not
// fail with EINTR. The signals in `blocked` are blocked while the handler runs. Returns the
// previous action.
struct sigaction set_signal_handler(int signal, void (*handler)(int),
                                    std::initializer_list<int> blocked = {});

}  // namespace am::launch
