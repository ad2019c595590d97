// Starts one child process, for the launcher.
//
//   pid_t pid = spawn({.argv = {"/bin/sh", "-c", "exit 3"}, .output_fd = log});
//
// The child has /dev/null as stdin, its own process group, the default action for every signal,
// also for those that this process ignores, and gets SIGKILL from the kernel when the thread that
// started it ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace am::launch {

struct ProcessSpec {
  std::vector<std::string> argv;  // a program without a slash is looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // over this process's own
  int output_fd = -1;  // stdout and stderr; stays open here
  // A socket that is told the child's process id, as a pid_t, before the program runs: whoever
  // reads it knows of the child at every moment at which the child can have started anything.
  int birth_fd = -1;
  int kept_fd = -1;  // the child has it under the same number, above 2
};

// Throws Error(kIo) when the program cannot be run, Error(kRuntime) when no process can be made.
pid_t spawn(const ProcessSpec& spec);

}  // namespace am::launch
