// Counts a program's collectives and their bytes, by operation and process group.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/runtime/progress.h"

namespace am::runtime {

// Totals of one operation in one process group.
struct CollectiveCount {
  std::string op;     // for example "all_gather"
  std::string group;  // name of the process group, for example "dp_shard_cp"
  int64_t bytes = 0;  // sum of the sizes that GroupContext::on_collective receives
  int64_t count = 0;  // number of collectives
};

// Adds one collective of `bytes` bytes to its entry in `counts`. Appends a new entry at the first
// collective with this operation and group.
void count_collective(std::vector<CollectiveCount>& counts, const Collective& collective,
                      int64_t bytes);

}  // namespace am::runtime
