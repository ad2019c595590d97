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
  int64_t bytes = 0;  // reduction of the rank's peak, computed by estimate_memory
};

// Returns single changes of the plan with the bytes of the rank's peak that each saves, largest
// first. Omits changes that the plan already has, that its strategy does not support, or that save
// nothing.
std::vector<MemorySaving> memory_savings(const config::Plan& plan, const model::ModelConfig& model,
                                         const layout::Layout& layout, int64_t rank);

}  // namespace am::predict
