// Starts the ranks of this machine, watches them, and says which one failed first.
//
//   launch::JobSpec job;
//   job.argv = {"/proc/self/exe", "plan.toml"};
//   job.nproc = 2;
//   job.log_folder = run.logs();
//   launch::JobResult result = launch::supervise(job, {.output = to_stderr});
//   if (result.exit_status != 0) std::cerr << launch::describe(result);
//
// Each rank gets torchrun's variables and AM_ERROR_FILE, /dev/null as stdin, its own process group
// (so that a terminal's Ctrl-C reaches the launcher alone), and SIGKILL from the kernel when the
// launcher dies. Rank 0's output goes through the launcher to its log and to `output`; the other
// ranks write straight to their logs.
//
// SIGTERM, SIGINT or SIGHUP to the launcher is passed on to every rank as one SIGTERM: finish the
// step, save, exit 0. A second one kills the ranks at once.
//
// See Note [Which rank failed first] in job_result.cpp for how the cause is chosen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/launch/job_result.h"

namespace am::launch {

struct JobSpec {
  std::vector<std::string> argv;  // program (looked up in PATH when it has no slash) and arguments
  int64_t nproc = 1;              // ranks on this machine
  int64_t node_rank = 0;
  int64_t num_nodes = 1;  // machines, all with the same nproc
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0: a free port of this machine; needs num_nodes == 1
  std::string run_id = "none";
  // Set for each rank, over the launcher's own environment.
  std::vector<std::pair<std::string, std::string>> environment;
  // Holds rank-R.log and rank-R.error.json; made when missing. Empty: a temporary folder, removed
  // at the end.
  std::filesystem::path log_folder;
  double grace_seconds = 10.0;  // after a failure: from SIGTERM to SIGKILL of the other ranks
  double settle_seconds =
      2.0;  // how long a peer's error waits for the true cause before the ranks are stopped
  double stop_seconds = 0.0;  // after the user's signal: to SIGKILL; 0: as long as saving takes
  int tail_lines = 20;        // of a failed rank's log, kept in the result
};

enum class JobEventKind {
  kStarted,     // all ranks run
  kStopping,    // the user's first signal was passed on
  kKilling,     // the ranks get SIGKILL: a second signal, or the time ran out
  kRankFailed,  // `rank` ended with an error; the others will be stopped
};

struct JobEvent {
  JobEventKind kind = JobEventKind::kStarted;
  int64_t rank = -1;
  int signal = 0;  // kStopping, kKilling: the user's signal, 0 where it was a time limit
};

struct JobCallbacks {
  // Bytes of rank 0's stdout and stderr as they come; may split lines.
  std::function<void(std::string_view bytes)> output;
  std::function<void(const JobEvent& event)> event;
};

// Runs the job to its end and reaps every rank. Throws Error(kIo) when the program cannot be
// started or the log folder cannot be written, Error(kUsage) for an impossible spec; no rank is
// left then. Only one job at a time in a process (signal handlers are the process's).
JobResult supervise(const JobSpec& spec, const JobCallbacks& callbacks);

}  // namespace am::launch
