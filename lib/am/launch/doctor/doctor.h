// Checks whether a machine can run a job, before any rank starts.
//
//   const auto checks = examine(needs, gather_machine(question));
//   if (!is_healthy(checks)) ...            // an error: the job cannot run here
//
// examine() is a pure function of the job's requirements and the machine's properties: no check
// reads the machine itself. To add a check, write a function in doctor_*.cpp and add a line to the
// table there.
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

// Requirements of one job, and of its ranks on this machine.
struct JobNeeds {
  // Whether the command line has placement options, such as --nproc or --nnodes; variables of a
  // launcher are then ignored.
  bool placed_by_options = false;
  std::optional<Diagnostic> placement_problem;  // set if options contradict a launcher's variables
  std::string backend = "gloo";                 // plan's backend string, see config/backend.h
  // Whether FSDP shards parameters over several ranks. CUDA_DEVICE_MAX_CONNECTIONS=1 would then
  // prevent gathers from overlapping with computation.
  bool shards_parameters = false;
  bool cuts_layers = false;  // whether the plan uses tensor or context parallelism
  int64_t world_size = 1;    // number of ranks that the plan needs
  // Number of ranks according to the launcher or the command line; 0: unknown, so that the plan's
  // number is used.
  int64_t given_world_size = 0;
  int64_t ranks_here = 1;     // ranks on this machine
  int64_t ranks_per_gpu = 1;  // largest number of ranks that may share a GPU over NCCL
  int64_t num_nodes = 1;
  int64_t peak_bytes = 0;        // predicted peak memory of the rank that needs most
  int64_t checkpoint_bytes = 0;  // size of one checkpoint: parameters and optimizer state
  int64_t checkpoints_kept = 1;  // number of complete checkpoints that are kept
  std::string master_addr = "127.0.0.1";
  bool serves_port = true;    // this machine will listen on master_port, which must be free
  int master_port = 0;        // port of the rendezvous; 0: the launcher chooses a free port
  std::string torch_version;  // version of the loaded libtorch, for example "2.11.0"
  std::optional<Diagnostic> torch_problem;  // set if ranks cannot start without another libtorch
};

// Runs all checks and returns their results in display order.
std::vector<Check> examine(const JobNeeds& needs, const Machine& machine);

// Returns true if no check has the status kError.
bool is_healthy(const std::vector<Check>& checks);

// Returns {"ok", "checks": [{"name", "status", "message", "help"}]}.
Json to_json(const std::vector<Check>& checks);

}  // namespace am::launch
