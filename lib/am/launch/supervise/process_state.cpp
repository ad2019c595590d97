#include "am/launch/supervise/process_state.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "am/base/text.h"

namespace am::launch {

ProcessStat process_stat(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  // The line is "pid (name) state parent group ..."; the name may contain any character.
  std::getline(file, text);
  ProcessStat found;
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return found;
  std::istringstream fields(text.substr(end + 1));
  pid_t parent = 0;
  fields >> found.state >> parent >> found.group;
  return found;
}

ProcessState process_state(pid_t pid) {
  switch (process_stat(cat("/proc/", pid)).state) {
    case 'T':
    case 't':
      return ProcessState::kStopped;
    case 'D':
      return ProcessState::kBlocked;
    case 'Z':
    case 'X':
      return ProcessState::kEnded;
    default:
      return ProcessState::kRuns;
  }
}

bool handles_signal(pid_t pid, int signal) {
  std::ifstream file(cat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    // The mask of caught signals, in hexadecimal: bit 0 is signal 1.
    if (!starts_with(line, "SigCgt:")) continue;
    const uint64_t mask = std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 16);
    return signal >= 1 && signal <= 64 && (mask >> (signal - 1) & 1) != 0;
  }
  return false;
}

std::string to_string(ProcessState state) {
  switch (state) {
    case ProcessState::kRuns:
      return "running";
    case ProcessState::kStopped:
      return "stopped";
    case ProcessState::kBlocked:
      return "waiting for a disk";
    case ProcessState::kEnded:
      return "ended";
  }
  return {};
}

}  // namespace am::launch
