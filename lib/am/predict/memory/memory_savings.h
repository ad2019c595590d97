// Finds changes of a plan that lower the peak memory of a rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"

namespace am::predict {

struct MemorySaving {
  // The changed key and its value as in a plan, for example
  // `strategy.activation_checkpointing = "full"`.
  std::string key;
  int64_t bytes = 0;  // decrease of the rank's peak, computed by estimate_memory()
};

// Tries three changes of the plan, one at a time: full activation checkpointing, offload_policy,
// and half the micro-batch size. Returns those that lower the rank's peak, the largest saving
// first. Omits a change that the plan already contains or that its strategy does not support.
std::vector<MemorySaving> memory_savings(const config::Plan& plan, const model::ModelConfig& model,
                                         const layout::Layout& layout, int64_t rank);

}  // namespace am::predict
