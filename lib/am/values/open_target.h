// How am-repl's TARGET is opened.
//
//   kWeights     StoredView
//   kPlan        ShardedView: here for one rank, else in processes of its own
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
  std::vector<config::Override> overrides;              // of a plan
  int64_t nproc = 0;                                    // ranks of a plan; 0: the plan's own
  config::Plugins plugins = config::Plugins::kRefused;  // of a plan; a checkpoint's is never asked
  WaitOptions wait;    // for a plan of several ranks, and for a job
  bool write = false;  // commands that change a job are wanted
  // The program and arguments that start one rank, which calls run_rank_worker(); a socket's number
  // is appended.
  std::vector<std::string> worker_argv;
};

// More ranks than this are not started on one machine.
inline constexpr int64_t kMostRanks = 64;

// Nothing when a plan is wrong; `found` then says why. Throws Error for what cannot be read or
// started, and for ranks that this machine's memory cannot hold.
std::unique_ptr<Interpreter> open_target(const Target& target, const OpenOptions& options,
                                         Diagnostics& found);

}  // namespace am::values
