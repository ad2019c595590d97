#include "am/base/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "am/base/descriptor.h"
#include "am/base/error.h"
#include "am/base/old_glibc.h"
#include "am/base/text.h"

namespace am {

pid_t start_child(const ChildProcess& child) {
  // If this process's standard descriptors are closed, input_fd and output_fd may be descriptors 0
  // to 2, which dup2 would overwrite. So copies with numbers from 3 on are used.
  const Descriptor input(::fcntl(child.input_fd, F_DUPFD_CLOEXEC, 3));
  const Descriptor output(child.output_fd < 0 ? -1 : ::fcntl(child.output_fd, F_DUPFD_CLOEXEC, 3));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  if (child.output_fd >= 0) {
    posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output.get(), STDERR_FILENO);
  }
  add_close_from(actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  const int session = child.own_session ? POSIX_SPAWN_SETSID : 0;
  posix_spawnattr_setflags(
      &attributes, static_cast<int16_t>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | session));
  std::vector<std::string> texts = child.argv;
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int reason =
      ::posix_spawnp(&pid, argv.front(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (reason == 0) return pid;
  throw Error(ErrorKind::kIo,
              cat("cannot start ", child.argv.front(), ": ", std::strerror(reason)));
}

int await_exit(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace am
