#include "am/launch/supervise/signal_scope.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/supervise/signal_thread.h"

namespace am::launch {
namespace {

std::atomic<int> g_write_fd = -1;

extern "C" void am_signal_scope_handler(int signal) {
  const int saved = errno;
  const int fd = g_write_fd.load();
  const auto byte = static_cast<unsigned char>(signal);
  // Drops the signal if the pipe is full: thousands of signals are then pending already.
  if (fd >= 0 && ::write(fd, &byte, 1) < 0) errno = 0;
  errno = saved;
}

}  // namespace

SignalScope::SignalScope(std::initializer_list<int> signals) {
  AM_ASSERT(g_write_fd.load() < 0, "a second SignalScope while one is alive");
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw Error(ErrorKind::kRuntime, cat("cannot create a pipe: ", std::strerror(errno)));
  }
  read_fd_ = fds[0];
  write_fd_ = fds[1];
  g_write_fd = write_fd_;
  for (const int signal : signals) {
    struct sigaction old = {};
    ::sigaction(signal, nullptr, &old);
    if (old.sa_handler == SIG_IGN && signal != SIGCHLD) continue;
    old_.emplace_back(signal, set_signal_handler(signal, am_signal_scope_handler));
  }
}

SignalScope::~SignalScope() {
  for (const auto& [signal, old] : old_) ::sigaction(signal, &old, nullptr);
  g_write_fd = -1;
  ::close(read_fd_);
  ::close(write_fd_);
}

std::vector<int> SignalScope::take() {
  std::vector<int> signals;
  unsigned char bytes[64];
  for (;;) {
    const ssize_t count = ::read(read_fd_, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return signals;
    signals.insert(signals.end(), bytes, bytes + count);
  }
}

}  // namespace am::launch
