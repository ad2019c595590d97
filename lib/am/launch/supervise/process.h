// Starts one child process, for the launcher.
//
//   pid_t pid = spawn({.argv = {"/bin/sh", "-c", "exit 3"}, .output_fd = log});
//
// The child has /dev/null as stdin, its own process group and the default action for every signal,
// including those that this process ignores. The kernel sends SIGKILL to the child when the thread
// that called spawn() ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace am::launch {

struct ProcessSpec {
  std::vector<std::string> argv;  // program (looked up in PATH if it has no slash) and arguments
  // Variables that are added to the environment that the child inherits. A variable of this list
  // replaces an inherited variable of the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  int output_fd = -1;  // descriptor for stdout and stderr; stays open in this process
  // Socket that receives the child's process id, as a pid_t, before the child can start any
  // process. If the program cannot be run, the negative process id follows. -1: none.
  int birth_fd = -1;
  // Descriptor that the child inherits under the same number, which must be above 2; -1: none.
  int kept_fd = -1;
};

// Starts the process and returns its id. Throws Error(kIo) if the program cannot be run, and
// Error(kRuntime) if the process or a pipe cannot be created.
pid_t spawn(const ProcessSpec& spec);

}  // namespace am::launch
