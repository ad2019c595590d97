// NeMo AutoModel's init_utils, by the same names. The first argument is what torch.distributed
// keeps in globals.
//
// Differences from AutoModel, all of them mended faults:
//   - DistInfo::device has one type on both paths, joined now or already.
//   - A Gloo job of several ranks works: its barrier is given no GPU.
//   - destroy_global_state gives SIGINT back to whoever handled it, also when destroying fails.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "am/compat/distributed.h"

namespace am::compat {

struct DistInfo {
  std::string backend;  // as asked for, also where one process needs none
  int64_t rank = 0;
  int64_t world_size = 1;
  c10::Device device = c10::Device(c10::kCPU);
  bool is_main = true;  // rank 0
};

// Collective: joins the job of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, with a barrier at the
// end; one process alone needs none of them and makes no connection. When the job is joined already
// says so and reports it. `timeout` holds for every group that is made in this job. Throws as
// Distributed::join.
DistInfo initialize_distributed(Distributed& dist, const std::string& backend,
                                std::chrono::milliseconds timeout = std::chrono::minutes(1));

// Runs what Distributed::before_leaving was given, then closes the connections; SIGINT is ignored
// meanwhile. A second call does nothing.
void destroy_global_state(Distributed& dist);

// From the variables alone: LOCAL_RANK (0), LOCAL_WORLD_SIZE (1). Throw Error(kUsage) for a value
// that is no number.
int64_t get_local_rank_preinit(const Distributed& dist);
int64_t get_local_world_size_preinit(const Distributed& dist);
// Of the job when it is joined, else from RANK (0), WORLD_SIZE (1); where neither is set, from
// Slurm's or MPI's variables. Throw as above.
int64_t get_rank_safe(const Distributed& dist);
int64_t get_world_size_safe(const Distributed& dist);

}  // namespace am::compat
