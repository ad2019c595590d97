// The values of torch.optim's param_groups for a plan's optimizer. PyTorch requires them in a
// checkpoint besides the tensors, each under two names: nested and flattened.
//
//   optim.param_groups.0.betas                              get_optimizer_state_dict
//   optim.param_groups.model.norm.weight.betas              the flattened name
//   optim.state.model.norm.weight.step                      float32 tensor without dims
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/formats/dcp_metadata.h"
#include "am/layout/layout.h"

namespace am::checkpoint {

// Settings and progress of an optimizer to save.
struct SavedOptimizer {
  config::OptimizerSection section;
  double lr = 0.0;    // learning rate of the last step
  int64_t steps = 0;  // number of updates
};

// Archives of the distinct values, and the entries of `.metadata` that refer to them.
struct OptimizerValues {
  std::vector<std::string> slices;
  std::vector<formats::DcpValue> values;    // slice.file: index of the archive in `slices`
  std::vector<formats::DcpTensor> tensors;  // one chunk each; slice.file as in `values`
};

OptimizerValues optimizer_values(const SavedOptimizer& optimizer, const layout::Layout& layout);

}  // namespace am::checkpoint
