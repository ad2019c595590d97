// Handles asynchronous signals on one thread of the process, so that they do not interrupt the
// threads that compute.
//
//   int main() {
//     const launch::SignalThread signals;   // first: threads created later inherit the mask
//     launch::StopSignal stop;
//     ...
//   }
//
// See Note [No handler on a computing thread] in signal_thread.cpp. A program that embeds automesh
// should also create a SignalThread if the program or one of its libraries handles signals. The
// SignalThread must exist before the first tensor operation, which starts libtorch's threads:
// existing threads keep their mask.
#pragma once

#include <csignal>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <thread>

namespace am::launch {

// An alternate stack (sigaltstack) for handlers that run on the calling thread. If the thread
// already has an alternate stack, the constructor creates none. Must be destroyed on the thread
// that created it.
class AlternateStack {
 public:
  AlternateStack();
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;
  ~AlternateStack();

 private:
  std::unique_ptr<std::byte[]> memory_;  // null: the thread already had a stack
};

// Blocks every asynchronous signal in the calling thread, and hence in all threads that the calling
// thread creates later. Starts a signal thread that does not block these signals. The kernel
// therefore delivers them to the signal thread, whatever their action is. Signals that a thread
// raises itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPIPE) and those of
// the terminal's job control (SIGTSTP, SIGTTIN, SIGTTOU) are not blocked.
//
// The destructor restores the signal mask and must run on the thread of the constructor. A second
// SignalThread blocks no signals and starts no thread while another exists. raise() targets the
// calling thread, where the signal stays pending: use kill(getpid(), ..) instead.
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
