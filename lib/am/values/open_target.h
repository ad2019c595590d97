// Opens am-repl's TARGET.
//
//   kWeights     StoredView
//   kPlan        ShardedView: in this process for one rank, otherwise in processes of its own
//   kJob         AttachedJob
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/inspect/interpreter.h"
#include "am/inspect/target.h"
#include "am/inspect/wait_options.h"
#include "am/values/parameter_view.h"

namespace am::values {

struct OpenOptions {
  SessionOptions session;
  std::vector<config::Override> overrides;              // for a plan
  int64_t nproc = 0;                                    // ranks of a plan; 0: as in the plan
  config::Plugins plugins = config::Plugins::kRefused;  // for a plan, never for a checkpoint
  WaitOptions wait;    // for a plan with several ranks, and for a job
  bool write = false;  // allow commands that change a job
  // Program and arguments that start one rank, which must call run_rank_worker(). The socket's file
  // descriptor number is appended.
  std::vector<std::string> worker_argv;
};

// Largest number of ranks that are started on one machine.
inline constexpr int64_t kMostRanks = 64;

// Returns null if a plan is invalid; `found` then has the errors. Throws Error for a target that
// cannot be read or started, and for ranks that do not fit in this machine's memory.
std::unique_ptr<Interpreter> open_target(const Target& target, const OpenOptions& options,
                                         Diagnostics& found);

}  // namespace am::values
