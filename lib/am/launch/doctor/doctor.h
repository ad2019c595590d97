// Judges a machine for a job, before any rank starts.
//
//   const auto checks = examine(needs, gather_machine(question));
//   if (!is_healthy(checks)) ...            // an error: the job cannot run here
//
// A pure function of what the job needs and what the machine has: no check looks at the machine
// itself. To add one: a function in doctor_*.cpp and its line in the table there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/base/json.h"
#include "am/launch/doctor/machine.h"

namespace am::launch {

enum class CheckStatus { kOk, kWarning, kError, kSkipped };

// "ok", "warning", "error", "skipped"
const char* to_string(CheckStatus status);

struct Check {
  std::string name;
  CheckStatus status = CheckStatus::kOk;
  std::string message;  // what was found, with the numbers that decided
  std::string help;     // what to do about it; empty when all is well
};

// Of one job, and of this machine's part in it.
struct JobNeeds {
  // The command line places this machine in the job, whatever variables a launcher has set.
  bool placed_by_options = false;
  std::optional<Diagnostic> placement_problem;  // options and variables that contradict each other
  std::string backend = "gloo";                 // see config/backend.h
  bool shards_parameters = false;  // FSDP over more than one rank: its gathers overlap computation
  bool cuts_layers = false;        // tensor or context parallelism
  int64_t world_size = 1;          // of the plan
  int64_t given_world_size = 0;    // of the launcher; 0: it takes the plan's
  int64_t ranks_here = 1;          // ranks on this machine
  int64_t ranks_per_gpu = 1;       // that may share a GPU over NCCL
  int64_t num_nodes = 1;
  int64_t peak_bytes = 0;        // predicted for the worst rank
  int64_t checkpoint_bytes = 0;  // of one checkpoint: parameters and optimizer
  int64_t checkpoints_kept = 1;  // at the same time
  std::string master_addr = "127.0.0.1";
  bool serves_port = true;    // this machine serves master_port, and nobody does yet
  int master_port = 0;        // 0: the launcher takes a free one
  std::string torch_version;  // of the libtorch that is loaded, "2.11.0"
};

// In the order in which they are shown.
std::vector<Check> examine(const JobNeeds& needs, const Machine& machine);

// No error among them.
bool is_healthy(const std::vector<Check>& checks);

// {"ok", "checks": [{"name", "status", "message", "help"}]}
Json to_json(const std::vector<Check>& checks);

}  // namespace am::launch
