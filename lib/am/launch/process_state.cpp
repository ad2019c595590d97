#include "am/launch/process_state.h"

#include <fstream>
#include <iterator>

#include "am/base/text.h"

namespace am::launch {

ProcessState process_state(pid_t pid) {
  std::ifstream file(cat("/proc/", pid, "/stat"));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  // "PID (NAME) STATE ...": the name may hold anything, brackets included.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return ProcessState::kEnded;
  switch (text[name_end + 2]) {
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
