// Computes the host memory that the ranks of one machine need if the backend computes on the CPU.
//
//   const int64_t wanted = training_bytes(plan, model, layout, {.first = 0, .count = 8});
//   const auto shortage = launch::memory_shortage(wanted, launch::memory_of_machine());
#pragma once

#include <cstdint>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"

namespace am::predict {

struct RankRange {
  int64_t first = 0;
  int64_t count = 1;
};

// Returns the bytes that the ranks `ranks` of a training job need. Adds for each rank the predicted
// peak, MemoryComponents::host, and the memory of a process without a model (launch::kRankBytes).
int64_t training_bytes(const config::Plan& plan, const model::ModelConfig& model,
                       const layout::Layout& layout, RankRange ranks);
// Returns the bytes that the ranks `ranks` need in a session that inspects the plan's model without
// training. Adds for each rank the stored parameters, MemoryComponents::unsharded and
// MemoryComponents::other at the peak of a training step, and launch::kRankBytes.
int64_t inspection_bytes(const config::Plan& plan, const model::ModelConfig& model,
                         const layout::Layout& layout, RankRange ranks);

}  // namespace am::predict
