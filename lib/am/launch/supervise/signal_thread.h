// Signals are taken by one thread of the process; the threads that compute are never interrupted.
//
//   int main() {
//     const launch::SignalThread signals;   // first of all: threads made later inherit the mask
//     launch::StopSignal stop;
//     ...
//   }
//
// See Note [No handler on a computing thread] in the source. A program that embeds the library and
// handles signals, or loads a library that does, makes one too, before its first tensor operation
// starts libtorch's threads: threads that are older keep the mask that they have.
#pragma once

#include <csignal>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <thread>

namespace am::launch {

// An alternate stack (sigaltstack) for the handlers that run on the calling thread, if it has none
// yet. Destroyed on the same thread.
class AlternateStack {
 public:
  AlternateStack();
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;
  ~AlternateStack();

 private:
  std::unique_ptr<std::byte[]> memory_;  // null: the thread had a stack already
};

// Blocks every asynchronous signal in the calling thread, and so in the threads that it makes from
// now on, and starts a thread that blocks none: the kernel delivers to that one, whatever the
// signal's action. Left open everywhere are signals that a thread raises by what it does itself
// (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPIPE) and the terminal's job
// control (SIGTSTP, SIGTTIN, SIGTTOU).
//
// The destructor, on the same thread, restores the mask. A second one while one lives does nothing.
// raise() is directed at the calling thread, where the signal now waits: use kill(getpid(), ..).
class SignalThread {
 public:
  // Throws Error(kRuntime) when no thread can be started.
  SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;
  ~SignalThread();

 private:
  AlternateStack stack_;
  sigset_t before_ = {};
  int end_fd_ = -1;  // -1: another one was there
  std::thread thread_;
};

// sigaction() with SA_ONSTACK, and SA_RESTART so that calls under way see no EINTR. While the
// handler runs, `blocked` wait too. The action of before.
struct sigaction set_signal_handler(int signal, void (*handler)(int),
                                    std::initializer_list<int> blocked = {});

}  // namespace am::launch
