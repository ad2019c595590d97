#include "am/launch/environment/cores.h"

#include <sched.h>

#include <algorithm>

#include "am/base/number.h"

namespace am::launch {

int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int64_t threads_per_rank(int64_t cores, int64_t local_world_size) {
  return std::max<int64_t>(1, cores / std::max<int64_t>(1, local_world_size));
}

std::optional<int64_t> own_threads(const RankEnvironment& here, const EnvironmentLookup& lookup,
                                   int64_t cores) {
  if (lookup("OMP_NUM_THREADS")) return std::nullopt;
  const auto per_task = lookup("SLURM_CPUS_PER_TASK");
  const auto given = per_task ? parse_integer(*per_task) : std::nullopt;
  if (here.launcher == "slurm" && given && *given > 0) return *given;
  return threads_per_rank(cores, here.local_world_size);
}

}  // namespace am::launch
