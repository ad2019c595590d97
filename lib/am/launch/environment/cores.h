// How many threads a rank computes with.
#pragma once

#include <cstdint>
#include <optional>

#include "am/launch/environment/environment.h"

namespace am::launch {

// Cores that this process may use, by its affinity mask; at least 1.
int64_t usable_cores();

// What torchrun gives each of a machine's ranks: max(1, cores / ranks).
int64_t threads_per_rank(int64_t cores, int64_t local_world_size);

// What a rank should set by itself. Nothing where OMP_NUM_THREADS says it already, as torchrun and
// our own launcher have it; srun and mpirun leave it to the program, whose every rank would take
// all cores. Slurm's --cpus-per-task counts before the mask.
std::optional<int64_t> own_threads(const RankEnvironment& here, const EnvironmentLookup& lookup,
                                   int64_t cores);

}  // namespace am::launch
