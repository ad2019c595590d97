// Decides how many CPU threads a rank uses.
#pragma once

#include <cstdint>
#include <optional>

#include "am/launch/environment/environment.h"

namespace am::launch {

// Returns the number of cores in this process's affinity mask; at least 1.
int64_t usable_cores();

// Returns the OMP_NUM_THREADS that am-run sets for each rank of a machine: max(1, cores / ranks).
// torchrun instead sets 1 if the machine has several ranks.
int64_t threads_per_rank(int64_t cores, int64_t local_world_size);

// Returns the number of threads that a rank should set by itself; nothing if OMP_NUM_THREADS is
// set, as torchrun and am-run do. srun and mpirun do not set OMP_NUM_THREADS; every rank would use
// all cores if it did not limit its threads itself. Slurm's --cpus-per-task takes precedence over
// the affinity mask.
std::optional<int64_t> own_threads(const RankEnvironment& here, const EnvironmentLookup& lookup,
                                   int64_t cores);

}  // namespace am::launch
