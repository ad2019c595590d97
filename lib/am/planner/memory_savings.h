// Plan keys that lower a job's peak memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/planner/job.h"

namespace am::planner {

struct MemorySaving {
  std::string key;    // as a plan has it: `strategy.activation_checkpointing = "full"`
  int64_t bytes = 0;  // less of the rank's peak than now, by estimate_memory
};

// Single changes of the plan and the bytes of the rank's peak that each saves, the most first;
// changes that the plan has already, that its strategy does not know or that save nothing are left
// out.
std::vector<MemorySaving> memory_savings(const Job& job, int64_t rank);

}  // namespace am::planner
