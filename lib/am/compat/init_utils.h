// NeMo AutoModel's init_utils, under the same names. The first argument replaces
// torch.distributed's globals.
//
// Differences from AutoModel, all bug fixes:
//   - DistInfo::device has one type, whether the job was joined now or before.
//   - A Gloo job of several ranks works: its barrier does not receive a GPU.
//   - destroy_global_state restores the SIGINT handler, also if destroying fails.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "am/compat/distributed.h"

namespace am::compat {

struct DistInfo {
  std::string backend;  // as requested, even if a single process needs none
  int64_t rank = 0;
  int64_t world_size = 1;
  c10::Device device = c10::Device(c10::kCPU);
  bool is_main = true;  // rank 0
};

// Collective: joins the job of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, with a barrier at the
// end. A single process needs none of them and makes no connection. If the job is already joined,
// logs that and returns its state. `timeout` applies to every group created in this job. Throws
// what Distributed::join throws.
DistInfo initialize_distributed(Distributed& dist, const std::string& backend,
                                std::chrono::milliseconds timeout = std::chrono::minutes(1));

// Runs the hooks of Distributed::before_leaving, then closes the connections; SIGINT is ignored
// meanwhile. A second call does nothing.
void destroy_global_state(Distributed& dist);

// Return LOCAL_RANK (default 0) and LOCAL_WORLD_SIZE (default 1), never the joined job's values.
// Throw Error(kUsage) for a value that is not an integer.
int64_t get_local_rank_preinit(const Distributed& dist);
int64_t get_local_world_size_preinit(const Distributed& dist);
// Return the joined job's values; before joining, RANK (default 0) and WORLD_SIZE (default 1), or
// if neither is set, Slurm's or MPI's. Throw as above.
int64_t get_rank_safe(const Distributed& dist);
int64_t get_world_size_safe(const Distributed& dist);

}  // namespace am::compat
