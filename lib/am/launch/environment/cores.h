// Computes how many CPU threads a rank uses.
#pragma once

#include <cstdint>
#include <optional>

#include "am/launch/environment/environment.h"

namespace am::launch {

// Returns the number of cores in this process's affinity mask; at least 1.
int64_t usable_cores();

// Returns the OMP_NUM_THREADS that am-run sets for each rank of a machine: cores /
// local_world_size, but at least 1. torchrun instead sets 1 if the machine has several ranks.
int64_t threads_per_rank(int64_t cores, int64_t local_world_size);

// Returns the number of threads to which a rank must limit itself; nothing if OMP_NUM_THREADS is
// set, for example by torchrun or am-run. srun and mpirun do not set OMP_NUM_THREADS, and without a
// limit every rank would use all cores. The number is Slurm's --cpus-per-task if srun started the
// rank with this option, and otherwise threads_per_rank().
std::optional<int64_t> own_threads(const RankEnvironment& here, const EnvironmentLookup& lookup,
                                   int64_t cores);

}  // namespace am::launch
