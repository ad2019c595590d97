// Runs a job, and restarts it after a failure from the newest checkpoint that this job has written.
//
//   launch::RestartPolicy policy;
//   policy.max_restarts = 3;
//   policy.newest_step = [&] { return run_folder::newest_of_job(folder, job); };
//   policy.resume = [](launch::JobSpec& next, std::optional<int64_t> step) { .. };   // --resume
//   launch::JobResult result = launch::supervise_with_restarts(spec, policy, callbacks);
//
// All ranks restart together, with TORCHELASTIC_RESTART_COUNT one higher, and append to their logs.
// With several nodes, node 0 decides for all. A launcher whose number of ranks, nodes or restarts
// differs from node 0's refuses the job (same_job.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "am/launch/supervise/local.h"

namespace am::launch {

struct RestartPolicy {
  int64_t max_restarts = 0;
  // Called once on every node before the first attempt, after check_same_job() has compared the
  // nodes' options. If this function throws, the job is refused and the other nodes are informed.
  std::function<void()> before_start;
  // Whether to restart after any failure, including one that looks like the user's mistake.
  bool any_failure = false;
  // Returns whether the job's files still exist; called on node 0 after a failed attempt. Empty:
  // the files are assumed to exist.
  std::function<bool()> possible;
  // Returns the step of the newest checkpoint to resume from; nothing if none was written yet.
  // Called on node 0 after a failed attempt.
  std::function<std::optional<int64_t>()> newest_step;
  // Changes `spec`, a copy of the first attempt's spec, so that the next attempt resumes from
  // `step`. Without a step, the next attempt starts as the first attempt did.
  std::function<void(JobSpec& spec, std::optional<int64_t> step)> resume;
  // Called after an attempt failed and before the next one starts, for a message to the user;
  // `restart`: number of the next restart, from 1.
  std::function<void(const JobResult& failed, int64_t restart, std::optional<int64_t> step)>
      announce;
};

// Returns whether another attempt may succeed. Returns false if the job succeeded, if the user
// stopped the job, if the store is lost, or if a node's launcher is gone or could not start its
// ranks. Unless `any_failure`, also returns false for errors that the next attempt would repeat:
// wrong input (error kinds usage, plan and format, or exit status 2 without a step in the rank's
// report) and values that are not finite (error kind numeric).
bool worth_restarting(const JobResult& result, bool any_failure);

// Runs the job, restarts it as `policy` allows, and returns the last attempt's result. Throws the
// exceptions of supervise(), check_same_job() and before_start.
JobResult supervise_with_restarts(const JobSpec& spec, const RestartPolicy& policy,
                                  const JobCallbacks& callbacks);

}  // namespace am::launch
