// Checks whether a machine can run a job, before any rank starts (the command `am-run doctor`).
//
//   const auto checks = examine(needs, gather_machine(question));
//   if (!is_healthy(checks)) ...            // an error: the job cannot run here
//
// The result of examine() depends only on its arguments: gather_machine() has queried the machine
// before, and no check queries it again. To add a check, write a function in doctor_job.cpp,
// doctor_gpu.cpp or doctor_host.cpp and add a line to the table at the end of that file.
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

// Returns "ok", "warning", "error" or "skipped".
const char* to_string(CheckStatus status);

struct Check {
  std::string name;
  CheckStatus status = CheckStatus::kOk;
  std::string message;  // result of the check, with the numbers that decided it
  std::string help;     // suggested remedy; empty if the check passed
};

// Requirements of a job, and of its ranks on this machine.
struct JobNeeds {
  // Whether the command line contains options that place the ranks, such as --nproc or --nnodes.
  // The environment variables of a launcher are then ignored.
  bool placed_by_options = false;
  // Set if a launcher's environment variables are invalid or contradict the command line's options.
  std::optional<Diagnostic> placement_problem;
  std::string backend = "gloo";  // plan's backend string, see config/backend.h
  // Whether FSDP shards parameters over several ranks. CUDA_DEVICE_MAX_CONNECTIONS=1 then prevents
  // gathers from overlapping with computation.
  bool shards_parameters = false;
  bool cuts_layers = false;  // whether the plan uses tensor or context parallelism
  int64_t world_size = 1;    // number of ranks of the plan's mesh
  // Number of ranks of the job according to the launcher or the command line. 0: neither contains
  // the number, and world_size applies.
  int64_t given_world_size = 0;
  int64_t ranks_here = 1;     // ranks on this machine
  int64_t ranks_per_gpu = 1;  // largest number of ranks that may share a GPU over NCCL
  int64_t num_nodes = 1;
  int64_t peak_bytes = 0;        // predicted peak memory of the rank with the highest peak
  int64_t checkpoint_bytes = 0;  // size of one checkpoint: parameters and optimizer state
  int64_t checkpoints_kept = 1;  // number of complete checkpoints that are kept
  std::string master_addr = "127.0.0.1";
  bool serves_port = true;    // this machine will listen on master_port, which must be free
  int master_port = 0;        // port of the rendezvous; 0: the launcher chooses a free port
  std::string torch_version;  // version of the loaded libtorch, for example "2.11.0"
  // Why ranks cannot start, for example because the program with libtorch is not installed.
  std::optional<Diagnostic> torch_problem;
};

// Runs all checks and returns their results in display order.
std::vector<Check> examine(const JobNeeds& needs, const Machine& machine);

// Returns true if no check has the status kError.
bool is_healthy(const std::vector<Check>& checks);

// Returns {"ok", "checks": [{"name", "status", "message", "help"}]}.
Json to_json(const std::vector<Check>& checks);

}  // namespace am::launch
