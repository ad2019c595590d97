// The functions of NeMo AutoModel's init_utils, under the same names. The first argument replaces
// torch.distributed's global state.
//
// Differences from AutoModel, all bug fixes:
//   - DistInfo::device has one type. In AutoModel, its type depends on whether the job was joined
//     before the call.
//   - A Gloo job of several ranks works, because no GPU is passed to its barrier.
//   - destroy_global_state restores the SIGINT handler, even if destroying fails.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "am/compat/distributed.h"

namespace am::compat {

struct DistInfo {
  std::string backend;  // the requested backend, even if a single process uses Gloo instead
  int64_t rank = 0;
  int64_t world_size = 1;
  c10::Device device = c10::Device(c10::kCPU);
  bool is_main = true;  // whether this is rank 0
};

// Joins the job that the launcher's variables describe (for example torchrun's RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT), and ends with a barrier. A single process needs no variables and
// makes no connection. If a job is joined already, logs a message and returns that job's state.
// `timeout` applies to joining, and to collectives of groups without their own timeout. Throws the
// errors of Distributed::join(). Collective.
DistInfo initialize_distributed(Distributed& dist, const std::string& backend,
                                std::chrono::milliseconds timeout = std::chrono::minutes(1));

// Calls the hooks of Distributed::before_leaving, then closes the connections. Ignores SIGINT in
// the meantime. A second call does nothing.
void destroy_global_state(Distributed& dist);

// Return LOCAL_RANK (default 0) and LOCAL_WORLD_SIZE (default 1), never the joined job's values.
// Throw Error(kUsage) for a value that is not an integer.
int64_t get_local_rank_preinit(const Distributed& dist);
int64_t get_local_world_size_preinit(const Distributed& dist);
// Return this rank's number and the number of ranks in the joined job. Before joining, return the
// variables RANK (default 0) and WORLD_SIZE (default 1); if both are unset, the values of another
// launcher (Slurm, MPI, Flux). Throw Error(kUsage) for a value that is not an integer.
int64_t get_rank_safe(const Distributed& dist);
int64_t get_world_size_safe(const Distributed& dist);

}  // namespace am::compat
