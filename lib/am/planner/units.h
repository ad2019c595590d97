// Which FSDP units free their parameters after forward: one rule for the prediction and the
// runtime.
#pragma once

#include <vector>

#include "am/config/strategy_config.h"
#include "am/model/inventory.h"

namespace am::planner {

// By unit.
//
//   fsdp2          without the setting: true for all but the last layer, the head and the root,
//                  whose parameters backward needs first (PyTorch keeps them). An explicit true or
//                  false decides for every unit but the root.
//   megatron_fsdp  true for all at level 3; below it false for all
//   ddp            false for all
std::vector<bool> reshard_after_forward(const config::DistributedConfig& strategy,
                                        const std::vector<model::Unit>& units);

}  // namespace am::planner
