// Counts the messages of a program by kind of collective and process group.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/runtime/progress.h"

namespace am::runtime {

// All messages that one kind of collective sends in one process group.
struct CollectiveCount {
  std::string op;     // kind of the collective, for example "all_gather"
  std::string group;  // name of the process group, for example "dp_shard_cp"
  int64_t bytes = 0;  // total size of the full tensors, as GroupContext::on_collective counts it
  int64_t count = 0;  // number of messages
};

// Adds one message to the counts, which are in the order in which kinds were first used.
void count_collective(std::vector<CollectiveCount>& counts, const Collective& collective,
                      int64_t bytes);

}  // namespace am::runtime
