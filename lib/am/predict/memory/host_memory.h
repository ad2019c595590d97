// Host memory that the ranks of one machine need if their tensors are on the CPU.
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

// Returns the bytes that the ranks `ranks` of a training job need: for each rank its predicted
// peak, its offloaded states, and the overhead of a process.
int64_t training_bytes(const config::Plan& plan, const model::ModelConfig& model,
                       const layout::Layout& layout, RankRange ranks);
// Returns the bytes that the ranks `ranks` need in a session that inspects the plan's model without
// training: parameters, the FSDP units that a forward pass gathers, MemoryComponents::other, and
// the overhead of a process.
int64_t inspection_bytes(const config::Plan& plan, const model::ModelConfig& model,
                         const layout::Layout& layout, RankRange ranks);

}  // namespace am::predict
