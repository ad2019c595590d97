// Values that a job derives from plan and model: batch sizes, and gradients for the optimizer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/optim/clip.h"
#include "am/parallel/parallel_model.h"

namespace am::train {

struct BatchSizes {
  int64_t global_batch = 1;   // sequences per optimizer step
  int64_t micro_batches = 1;  // per rank and step
};

// Requires a plan that passed the rule batch.divide.
BatchSizes batch_sizes(const config::Plan& plan, const mesh::MeshSizes& sizes);

// Returns the flat gradient tensor of each of the model's groups; defined after backward.
std::vector<at::Tensor> trained_gradients(const parallel::ParallelModel& model);
// Returns the same gradients by parameter, for their norm.
std::vector<optim::GradientShard> gradient_shards(parallel::ParallelModel& model);

}  // namespace am::train
