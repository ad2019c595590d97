// Computes the values of torch.optim's param_groups for a plan's optimizer. PyTorch requires them
// in a checkpoint besides the tensors. Each has two names, for its nested and its flattened form:
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

// Settings and progress of the optimizer that is saved.
struct SavedOptimizer {
  config::OptimizerSection section;
  double lr = 0.0;    // learning rate of the last step
  int64_t steps = 0;  // number of updates so far
};

// torch.save archives with the values, each distinct value once, and the entries of `.metadata`
// that refer to the archives.
struct OptimizerValues {
  std::vector<std::string> slices;
  // Entries of `.metadata`. Their slice.file is not the number of a file yet, but the index of the
  // archive in `slices`. Each tensor has one chunk.
  std::vector<formats::DcpValue> values;
  std::vector<formats::DcpTensor> tensors;
};

OptimizerValues optimizer_values(const SavedOptimizer& optimizer, const layout::Layout& layout);

}  // namespace am::checkpoint
