// Kills the ranks' process groups after their launcher has died.
//
//   OrphanGuard guard;
//   // The guard watches the new process from its start.
//   pid_t pid = spawn({.argv = command, .output_fd = 2, .birth_fd = guard.birth_fd()});
//   ...
//   guard.forget(pid);     // after `pid` was reaped: the number may be reused
//
// The kernel kills a rank when its launcher dies (PR_SET_PDEATHSIG), but not the processes that the
// rank started: Python below a shell script, a data loader's workers. The guard, a small child
// process of the launcher, kills these processes. The guard reads from a socket, which closes when
// the launcher dies for any reason, and then sends SIGKILL to every watched group. The guard cannot
// reach a process that has left its rank's group (setsid, a daemon).
#pragma once

#include <sys/types.h>

namespace am::launch {

class OrphanGuard {
 public:
  // Starts the guard process. Throws Error(kRuntime) if the process or its socket cannot be
  // created.
  OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;
  // Ends the guard process. Groups that are still watched are killed.
  ~OrphanGuard();

  // The socket for ProcessSpec::birth_fd, through which the child registers its group before it can
  // start processes that would survive the launcher's death.
  int birth_fd() const { return fd_; }
  // Stops watching a process group. Called once all processes of the group have ended or been
  // killed.
  void forget(pid_t group) const { tell(-group); }

 private:
  void tell(pid_t message) const;

  pid_t pid_ = 0;
  int fd_ = -1;
};

}  // namespace am::launch
