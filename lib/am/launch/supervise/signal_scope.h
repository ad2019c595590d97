// Signals as readable bytes: what an event loop that polls file descriptors needs.
//
//   SignalScope signals({SIGTERM, SIGINT, SIGCHLD});
//   pollfd wait{signals.fd(), POLLIN, 0};
//   poll(&wait, 1, -1);
//   for (int signal : signals.take()) ...
//
// The classic self-pipe: the handler only writes the signal's number to a pipe, so no signal is
// lost between a check and the poll, and no thread nor blocked mask is needed.
#pragma once

#include <csignal>
#include <initializer_list>
#include <utility>
#include <vector>

namespace am::launch {

// Installs the handlers and restores the old ones on destruction. A signal that was ignored
// (nohup's SIGHUP) stays ignored, but for SIGCHLD. One scope at a time in a process: a second
// throws Error(kInternal).
class SignalScope {
 public:
  explicit SignalScope(std::initializer_list<int> signals);
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  ~SignalScope();

  // Readable when a signal came.
  int fd() const { return read_fd_; }
  // The signals that came since the last call, in order; does not block.
  std::vector<int> take();

 private:
  int read_fd_ = -1;
  int write_fd_ = -1;
  std::vector<std::pair<int, struct sigaction>> old_;
};

}  // namespace am::launch
