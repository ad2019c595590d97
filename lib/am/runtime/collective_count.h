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
  int64_t bytes = 0;  // total size of the full tensors, as GroupContext::on_collective counts it
  int64_t count = 0;  // number of collectives
};

// Adds one collective to `counts`, which is sorted by the first use of each operation and group.
void count_collective(std::vector<CollectiveCount>& counts, const Collective& collective,
                      int64_t bytes);

}  // namespace am::runtime
