#include "am/launch/supervise/orphan_guard.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "am/base/error.h"
#include "am/base/old_glibc.h"
#include "am/base/signals_blocked.h"
#include "am/base/text.h"

namespace am::launch {
namespace {

// Runs the guard process, with all signals blocked. The launcher may have threads at the fork, so
// the guard makes only system calls and allocates no memory. The guard leads its own session, so
// that no signal to the launcher's group ends the guard. The guard keeps no descriptor except the
// socket, because other processes wait for the launcher's output to close.
[[noreturn]] void guard(int socket) {
  ::setsid();
  ::prctl(PR_SET_NAME, "am-run-guard");
  ::dup2(socket, STDIN_FILENO);
  close_descriptors_from(1);
  std::array<pid_t, 4096> groups;
  size_t count = 0;
  pid_t message = 0;
  for (;;) {
    const ssize_t bytes = ::read(STDIN_FILENO, &message, sizeof(message));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes != static_cast<ssize_t>(sizeof(message))) break;
    if (message > 0 && count < groups.size()) groups[count++] = message;
    if (message < 0) {
      count = static_cast<size_t>(std::remove(groups.begin(), groups.begin() + count, -message) -
                                  groups.begin());
    }
  }
  for (size_t i = 0; i < count; ++i) ::kill(-groups[i], SIGKILL);
  ::_exit(0);
}

}  // namespace

OrphanGuard::OrphanGuard() {
  int fds[2];
  // Uses a socket instead of a pipe, because a write to a pipe would end the launcher by SIGPIPE if
  // the guard had been killed.
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    throw Error(ErrorKind::kRuntime, cat("cannot create a socket: ", std::strerror(errno)));
  }
  int reason = 0;
  {
    const SignalsBlocked blocked;
    pid_ = ::fork();
    reason = errno;
    if (pid_ == 0) guard(fds[0]);
  }
  ::close(fds[0]);
  fd_ = fds[1];
  if (pid_ < 0) {
    ::close(fd_);
    throw Error(ErrorKind::kRuntime, cat("cannot start a process: ", std::strerror(reason)));
  }
}

OrphanGuard::~OrphanGuard() {
  ::close(fd_);
  ::waitpid(pid_, nullptr, 0);
}

void OrphanGuard::tell(pid_t message) const {
  ssize_t written = 0;
  do {
    written = ::send(fd_, &message, sizeof(message), MSG_NOSIGNAL);
  } while (written < 0 && errno == EINTR);
}

}  // namespace am::launch
