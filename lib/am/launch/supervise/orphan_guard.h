// Ends process groups whose launcher was killed.
//
//   OrphanGuard guard;
//   pid_t pid = spawn({.argv = ..., .birth_fd = guard.birth_fd()});   // watched from birth
//   ...
//   guard.forget(pid);     // it was reaped: its number may be given to strangers
//
// The kernel kills a rank when its launcher dies (PR_SET_PDEATHSIG), but not what the rank itself
// has started: the Python below a shell script, a data loader's workers. A small process of the
// launcher's does that: it sleeps on a socket, and when that closes, which no death can prevent, it
// sends SIGKILL to every group that is still watched. Out of its reach is a process that has
// left its rank's group (setsid, a daemon).
#pragma once

#include <sys/types.h>

namespace am::launch {

class OrphanGuard {
 public:
  // Throws Error(kRuntime) when no process can be made.
  OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;
  // Ends the guard. Groups that are still watched are killed.
  ~OrphanGuard();

  // For ProcessSpec: the child itself asks to be watched, before it can start anything that would
  // be left if the launcher died right then.
  int birth_fd() const { return fd_; }
  void forget(pid_t group) const { tell(-group); }

 private:
  void tell(pid_t message) const;

  pid_t pid_ = 0;
  int fd_ = -1;
};

}  // namespace am::launch
