// Delivers signals as readable bytes, for an event loop that polls file descriptors.
//
//   SignalScope signals({SIGTERM, SIGINT, SIGCHLD});
//   pollfd wait{signals.fd(), POLLIN, 0};
//   poll(&wait, 1, -1);
//   for (int signal : signals.take()) ...
//
// Uses a self-pipe: the handler only writes the signal's number to a pipe. No signal is lost
// between a check and the poll, and neither a thread nor a blocked signal mask is needed.
#pragma once

#include <csignal>
#include <initializer_list>
#include <utility>
#include <vector>

namespace am::launch {

// Installs the handlers; the destructor restores the old handlers. An ignored signal (nohup's
// SIGHUP) stays ignored, except SIGCHLD. A process may have only one SignalScope at a time: the
// constructor of a second scope throws Error(kInternal).
class SignalScope {
 public:
  explicit SignalScope(std::initializer_list<int> signals);
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  ~SignalScope();

  // Returns a descriptor that is readable if a signal has arrived.
  int fd() const { return read_fd_; }
  // Returns the signals that arrived since the last call, in order. Does not block.
  std::vector<int> take();

 private:
  int read_fd_ = -1;
  int write_fd_ = -1;
  std::vector<std::pair<int, struct sigaction>> old_;
};

}  // namespace am::launch
