// What am-repl's TARGET is, and how it is opened.
//
//   a Hugging Face folder, or a .safetensors file     StoredView
//   an am-run checkpoint (step-N)                     StoredView
//   an am-run run folder whose job runs               AttachedJob
//   any other, or its checkpoints/                    its newest whole checkpoint
//   a plan (TOML)                                     ShardedView: here for one rank, else in
//   processes of its own
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/control/place.h"
#include "am/inspect/interpreter.h"
#include "am/inspect/wait_options.h"

namespace am::inspect {

enum class TargetKind { kWeights, kPlan, kJob };

struct Target {
  TargetKind kind = TargetKind::kWeights;
  std::filesystem::path path;
  std::string note;  // what was opened in the target's place; empty: the target itself
  std::optional<control::JobAddress> job;  // of kJob
};

// Throws Error(kIo) for a path that is not there, Error(kFormat) for one that is none of the above;
// its hint lists what was looked for. Throws Error(kUsage) that says how to get to a job of another
// machine.
Target find_target(const std::filesystem::path& path);

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

}  // namespace am::inspect
