// What the kernel says of a process that does not answer.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace am::launch {

enum class ProcessState {
  kRuns,     // or sleeps, as working processes do now and then
  kStopped,  // by SIGSTOP, a terminal or a debugger: it does nothing until it is continued
  kBlocked,  // in the kernel: a disk or a network file system that does not answer
  kEnded,
};

// What /proc/PID/stat says.
struct ProcessStat {
  char state = 'Z';  // as in proc(5)
  pid_t group = 0;
};

// `process` is its folder in /proc.
ProcessStat process_stat(const std::filesystem::path& process);

// Of a process of this machine.
ProcessState process_state(pid_t pid);
// "running", "stopped", "waiting for a disk", "ended"
std::string to_string(ProcessState state);

}  // namespace am::launch
