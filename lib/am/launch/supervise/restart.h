// Runs a job, and runs it again when it failed: from the newest checkpoint that the job itself has
// written.
//
//   launch::RestartPolicy policy;
//   policy.max_restarts = 3;
//   policy.newest_step = [&] { return run_folder::newest_of_job(folder, job); };
//   policy.resume = [](launch::JobSpec& spec, std::optional<int64_t> step) { ... --resume ... };
//   launch::JobResult result = launch::supervise_with_restarts(spec, policy, callbacks);
//
// All ranks start again together, with TORCHELASTIC_RESTART_COUNT one higher, and append to their
// logs. With several nodes, node 0 decides for all; a launcher that was given another number of
// ranks, nodes or restarts than node 0's refuses the job (same_job.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "am/launch/supervise/local.h"

namespace am::launch {

struct RestartPolicy {
  int64_t max_restarts = 0;
  // Called once before the first attempt, on every node, when the nodes have met. What it throws
  // refuses the job: the other nodes are told.
  std::function<void()> before_start;
  // Any failure is worth another attempt, also one that looks like the user's.
  bool any_failure = false;
  // Whether what the job needs is there still; asked on node 0 after a failed attempt. Empty: it
  // is.
  std::function<bool()> possible;
  // The step of the newest checkpoint to go on from; nothing: none was written yet. Asked on node 0
  // after a failed attempt.
  std::function<std::optional<int64_t>()> newest_step;
  // Makes the next attempt start there: changes the spec that the first attempt had.
  std::function<void(JobSpec& spec, std::optional<int64_t> step)> resume;
  // An attempt failed, and the next one starts: `restart` from 1 on.
  std::function<void(const JobResult& failed, int64_t restart, std::optional<int64_t> step)>
      announce;
};

// Whether another attempt can end better. Not after the user's signal; and not when the user's own
// input is wrong (error kinds usage, plan, format; exit status 2 before the first step) or its
// numbers are not finite (numeric), for that would fail again, unless `any_failure`; nor when a
// node's launcher is gone.
bool worth_restarting(const JobResult& result, bool any_failure);

// The last attempt's result. Throws what supervise(), check_same_job() and before_start
// throw.
JobResult supervise_with_restarts(const JobSpec& spec, const RestartPolicy& policy,
                                  const JobCallbacks& callbacks);

}  // namespace am::launch
