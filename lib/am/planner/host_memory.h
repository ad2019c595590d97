// What the ranks of one machine take of its memory, where their tensors are there and not on GPUs.
//
//   const int64_t wanted = training_bytes(plan, model, layout, {.first = 0, .count = 8});
//   if (const auto shortage = launch::memory_shortage(wanted, launch::memory_of_machine())) ...
#pragma once

#include <cstdint>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/planner/layout.h"

namespace am::planner {

struct RankRange {
  int64_t first = 0;
  int64_t count = 1;
};

// Of a job: each rank's predicted peak, what it offloads, and what a process takes by itself.
int64_t training_bytes(const config::Plan& plan, const model::ModelConfig& model,
                       const Layout& layout, RankRange ranks);
// Of a session that looks into the plan's model: parameters, and the units that a forward pass
// gathers.
int64_t inspection_bytes(const config::Plan& plan, const model::ModelConfig& model,
                         const Layout& layout, RankRange ranks);

}  // namespace am::planner
