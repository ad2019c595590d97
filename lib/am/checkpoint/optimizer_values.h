// What torch.optim keeps in its param_groups, of a plan's optimizer: the values that stock PyTorch
// asks of a checkpoint beside tensors, under both of its names for each.
//
//   optim.param_groups.0.betas                              get_optimizer_state_dict
//   optim.param_groups.model.norm.weight.betas              the same, flattened
//   optim.state.model.norm.weight.step                      a tensor without dims, float32
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/formats/dcp_metadata.h"
#include "am/planner/layout.h"

namespace am::checkpoint {

// An optimizer as it is saved.
struct SavedOptimizer {
  config::OptimizerSection section;
  double lr = 0.0;    // of the last step
  int64_t steps = 0;  // that updated
};

// The values' archives, each once, and the entries that name them.
struct OptimizerValues {
  std::vector<std::string> slices;
  std::vector<formats::DcpValue> values;    // slice.file: the index of its archive in `slices`
  std::vector<formats::DcpTensor> tensors;  // each one chunk, whose slice.file is the same
};

OptimizerValues optimizer_values(const SavedOptimizer& optimizer, const planner::Layout& layout);

}  // namespace am::checkpoint
