// Starts the ranks of this machine, supervises them, and reports which one failed first.
//
//   launch::JobSpec job;
//   job.argv = {"/proc/self/exe", "plan.toml"};
//   job.nproc = 2;
//   job.log_folder = run.logs();
//   launch::JobResult result = launch::supervise(job, {.output = to_stderr});
//   if (result.exit_status != 0) std::cerr << launch::describe(result);
//
// Each rank receives torchrun's variables, AM_ERROR_PIPE and AM_ERROR_FILE, /dev/null as stdin, and
// its own process group, so that a terminal's Ctrl-C reaches only the launcher. If the launcher
// dies, SIGKILL ends all processes of these groups. The launcher writes rank 0's output to rank 0's
// log and passes the output to the callback `output`. The other ranks write directly to their logs.
//
// After SIGTERM, SIGINT or SIGHUP, the launcher sends one SIGTERM to every rank's group, which asks
// the ranks to finish the step, save and exit with status 0. A second signal kills the ranks
// immediately. However, a signal within a second of the first is ignored, because timeout(1) sends
// its signal twice; only a second Ctrl-C counts at once. A rank's failure after the user's signal
// does not end the other ranks, which have stop_seconds to save. SIGUSR1 and SIGUSR2 are passed on
// unchanged.
//
// After a failure, the launcher sends the other ranks SIGTERM and then SIGCONT, so that a suspended
// rank handles SIGTERM. After grace_seconds, SIGKILL follows. Note [Which rank failed first] in
// first_cause.cpp describes how the cause is chosen.
//
// With a store (JobSpec::store) and several nodes, the launchers inform each other. One node's
// failure stops the ranks of all nodes. Every launcher's result then contains the ranks of the
// other nodes too and the same cause, unless the store is lost or the user ends the wait for the
// other nodes. A launcher that cannot start its ranks informs the other launchers before it throws.
// A launcher without a heartbeat for silence_seconds counts as gone.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "am/launch/cause/job_result.h"
#include "am/launch/supervise/job_spec.h"

namespace am::launch {

enum class JobEventKind {
  kStarted,        // all ranks of this node were started
  kStopping,       // the ranks receive SIGTERM, after the user's first signal
  kKilling,        // the ranks are killed, after a second signal or an expired time limit
  kRankFailed,     // `rank` failed, the first on this node; others are stopped or already saving
  kRankSuspended,  // SIGSTOP, a terminal or a debugger stopped `rank` or a process of its group
};

struct JobEvent {
  JobEventKind kind = JobEventKind::kStarted;
  int64_t rank = -1;
  int signal = 0;   // kStopping, kKilling: the user's signal; 0 if a time limit expired
  int64_t pid = 0;  // kRankSuspended: the rank's process
};

struct JobCallbacks {
  // Receives the bytes of rank 0's stdout and stderr as they arrive; a call may end within a line.
  std::function<void(std::string_view bytes)> output;
  std::function<void(const JobEvent& event)> event;
};

// Runs the job to its end and reaps every rank of this node. Throws Error(kUsage) for an impossible
// spec, Error(kIo) if the program cannot be started or the log folder cannot be written,
// Error(kRuntime) if a process or pipe cannot be created, and Error(kPeer) if the nodes cannot
// agree on a port. After an exception, no rank of this node is left running. A process can run only
// one job at a time, because signal handlers are global.
JobResult supervise(const JobSpec& spec, const JobCallbacks& callbacks);

}  // namespace am::launch
