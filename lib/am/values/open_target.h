// Opens am-repl's TARGET. The TargetKind determines the class through which commands read tensors:
//
//   kWeights     StoredView, in this process
//   kPlan        ShardedView: in this process if the plan has one rank, otherwise in one process
//                per rank
//   kJob         AttachedJob, which sends the commands to the ranks of the running job
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
  std::vector<config::Override> overrides;  // settings that replace those in the plan
  int64_t nproc = 0;                        // number of ranks of a plan; 0: as the plan specifies
  config::Plugins plugins = config::Plugins::kRefused;  // whether a plan may load plugins
  inspect::WaitOptions wait;  // callbacks for the time in which am-repl waits for ranks
  bool write = false;         // whether commands may change a job
  // Program and arguments that start one rank of a plan; the program must call run_rank_worker().
  // open_target() appends one argument: the descriptor number of the rank's socket.
  std::vector<std::string> worker_argv;
};

// Largest number of ranks that open_target() starts.
inline constexpr int64_t kMostRanks = 64;

// Opens the target. If the target is an invalid plan, returns null and adds the errors to `found`.
// Throws Error if the target cannot be read or started, or if a plan has more than kMostRanks
// ranks. Unless options.session.force is true, throws Error(kPlan) if the ranks use no GPUs and do
// not fit into the memory of this machine.
std::unique_ptr<inspect::Interpreter> open_target(const inspect::Target& target,
                                                  const OpenOptions& options, Diagnostics& found);

}  // namespace am::values
