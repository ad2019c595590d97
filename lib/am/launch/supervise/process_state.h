// The kernel's state of a process that does not respond.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace am::launch {

enum class ProcessState {
  kRuns,     // runs, or sleeps as a working process does at times
  kStopped,  // by SIGSTOP, a terminal or a debugger, until it is continued
  kBlocked,  // in the kernel: a disk or a network file system that does not respond
  kEnded,
};

// Fields of /proc/PID/stat.
struct ProcessStat {
  char state = 'Z';  // as in proc(5)
  pid_t group = 0;
};

// `process` is the process's folder in /proc.
ProcessStat process_stat(const std::filesystem::path& process);

// `pid` is a process of this machine.
ProcessState process_state(pid_t pid);
// "running", "stopped", "waiting for a disk", "ended"
std::string to_string(ProcessState state);

}  // namespace am::launch
