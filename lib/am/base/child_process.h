// Starts a child process, without duplicating this process's address space as fork() does.
//
//   pid_t pid = start_child({.argv = {"less", "-R"}, .input_fd = pipe_end});
//
// The child has the default action for every signal, blocks none, and inherits no descriptor above
// 2.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace am {

struct ChildProcess {
  std::vector<std::string> argv;  // program (looked up in PATH if it has no slash) and arguments
  // Descriptors that the child uses as stdin (input_fd) and as both stdout and stderr (output_fd);
  // -1: the child inherits those of this process. The descriptors stay open in this process.
  int input_fd = -1;
  int output_fd = -1;
  // Whether the child leads a session and process group of its own, so that signals to this
  // process's group or terminal do not reach it.
  bool own_session = false;
};

// Starts the process and returns its id. Throws Error(kIo) if the program cannot be run.
pid_t start_child(const ChildProcess& child);

// Waits until the child has ended, and reaps it. Returns its exit status; 1 if a signal ended it.
int await_exit(pid_t child);

}  // namespace am
