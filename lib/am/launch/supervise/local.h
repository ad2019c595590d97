// Starts the ranks of this machine, watches them, and says which one failed first.
//
//   launch::JobSpec job;
//   job.argv = {"/proc/self/exe", "plan.toml"};
//   job.nproc = 2;
//   job.log_folder = run.logs();
//   launch::JobResult result = launch::supervise(job, {.output = to_stderr});
//   if (result.exit_status != 0) std::cerr << launch::describe(result);
//
// Each rank gets torchrun's variables, AM_ERROR_PIPE and AM_ERROR_FILE, /dev/null as stdin, its own
// process group (so that a terminal's Ctrl-C reaches the launcher alone), and SIGKILL when the
// launcher dies, with all that is in its group. Rank 0's output goes through the launcher to its
// log and to `output`; the other ranks write straight to their logs.
//
// SIGTERM, SIGINT or SIGHUP to the launcher is passed on to every rank's group as one SIGTERM:
// finish the step, save, exit 0. A second one kills the ranks at once, but within a second of the
// first only Ctrl-C twice does: timeout(1) sends its signal two times. From the first one on a
// failure does not end the other ranks: they may take stop_seconds to save. SIGUSR1 and SIGUSR2 are
// passed on as they are.
//
// After a failure the other ranks get SIGTERM, SIGCONT (one that was stopped must hear it), and
// SIGKILL when grace_seconds are over. See Note [Which rank failed first] in first_cause.cpp for
// how the cause is chosen.
//
// With a store (JobSpec::store) and several nodes, the launchers tell each other: one node's
// failure stops the ranks of all, and every launcher's result holds the ranks of all nodes and
// names the same cause. A launcher that cannot start its ranks tells the others before it throws;
// one that gives no sign of life for silence_seconds counts as failed.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "am/launch/cause/job_result.h"
#include "am/launch/supervise/job_spec.h"

namespace am::launch {

enum class JobEventKind {
  kStarted,        // all ranks run
  kStopping,       // the user's first signal was passed on
  kKilling,        // the ranks get SIGKILL: a second signal, or the time ran out
  kRankFailed,     // `rank` ended with an error; the others will be stopped
  kRankSuspended,  // `rank` was stopped by SIGSTOP, a terminal or a debugger: the others wait
};

struct JobEvent {
  JobEventKind kind = JobEventKind::kStarted;
  int64_t rank = -1;
  int signal = 0;   // kStopping, kKilling: the user's signal, 0 where it was a time limit
  int64_t pid = 0;  // kRankSuspended
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
