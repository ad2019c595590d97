// Jobs whose ranks run shell scripts, and other helpers for tests of the launcher.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "am/base/text.h"
#include "am/launch/supervise/local.h"
#include "support/temporary_folder.h"

namespace launch_test {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns a job whose ranks run the shell script `script`. The variable $DIR is the folder of the
// test.
inline am::launch::JobSpec shell_job(const TemporaryFolder& folder, int64_t nproc,
                                     const std::string& script) {
  am::launch::JobSpec job;
  job.argv = {"sh", "-c", script};
  job.nproc = nproc;
  job.log_folder = folder / "logs";
  job.environment = {{"DIR", folder.path().string()}};
  // These times are long enough for a machine under load. Tests of the times set their own values.
  job.grace_seconds = 30.0;
  job.settle_seconds = 30.0;
  return job;
}

struct Seen {
  std::string output;
  std::vector<am::launch::JobEventKind> events;

  am::launch::JobCallbacks callbacks() {
    am::launch::JobCallbacks result;
    result.output = [this](std::string_view bytes) { output += bytes; };
    result.event = [this](const am::launch::JobEvent& event) { events.push_back(event.kind); };
    return result;
  }
};

// Returns callbacks that send this process a signal for each "ready" in the output of rank 0.
inline am::launch::JobCallbacks signal_on_ready(int signal) {
  am::launch::JobCallbacks callbacks;
  callbacks.output = [signal](std::string_view bytes) {
    for (size_t at = 0; (at = bytes.find("ready", at)) != std::string_view::npos; ++at) {
      ::raise(signal);
    }
  };
  return callbacks;
}

// Returns the state of a process as the kernel's letter, for example "R", "S" or "Z". Returns "" if
// the process does not exist.
inline std::string state_of(pid_t pid) {
  std::ifstream stat(am::cat("/proc/", pid, "/stat"));
  std::string text;
  if (!std::getline(stat, text)) return {};
  return text.substr(text.rfind(')') + 2, 1);
}

// Returns whether a process has ended. A zombie, which its parent has not reaped yet, has ended.
inline bool is_gone(pid_t pid) {
  const std::string state = state_of(pid);
  return state.empty() || state == "Z";
}

// Returns the process id in a file that a script wrote, or 0 if the file contains no number.
inline pid_t pid_in(const std::filesystem::path& path) {
  pid_t pid = 0;
  std::ifstream(path) >> pid;
  return pid;
}

// Waits until the condition holds; returns false after twenty seconds.
template <typename Condition>
bool soon(Condition condition) {
  const auto start = Clock::now();
  while (!condition()) {
    if (seconds_since(start) > 20.0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

inline bool has_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text;
  return static_cast<bool>(std::getline(file, text)) && !file.eof();
}

inline int64_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return std::distance(begin(entries), end(entries));
}

}  // namespace launch_test
