// Reads the states of processes from /proc, for example of a rank that does not respond.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace am::launch {

enum class ProcessState {
  kRuns,     // runs or sleeps, as a working process does
  kStopped,  // stopped by SIGSTOP, a terminal or a debugger, until it is continued
  kBlocked,  // waits in the kernel for a disk or a network file system that does not respond
  kEnded,
};

// Fields of /proc/PID/stat.
struct ProcessStat {
  char state = 'Z';  // letter of the state, as in proc(5)
  pid_t group = 0;
};

// Reads the fields from a process's folder, /proc/PID. The state is 'Z' if the process does not
// exist.
ProcessStat process_stat(const std::filesystem::path& process);

// Returns the state of a process of this machine; kEnded if the process does not exist.
ProcessState process_state(pid_t pid);
// Returns whether the process has a handler for the signal.
bool handles_signal(pid_t pid, int signal);
// Returns "running", "stopped", "waiting for a disk" or "ended".
std::string to_string(ProcessState state);

}  // namespace am::launch
