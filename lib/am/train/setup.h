// What a job's plan means before the first step: sizes of batches, what the optimizer updates.
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

// The rule batch.divide has made sure that it divides.
BatchSizes batch_sizes(const config::Plan& plan, const mesh::MeshSizes& sizes);

// What the optimizer updates the model's groups by, a flat tensor each; there after backward.
std::vector<at::Tensor> trained_gradients(const parallel::ParallelModel& model);
// The same gradients by parameter, for their norm.
std::vector<optim::GradientShard> gradient_shards(parallel::ParallelModel& model);

}  // namespace am::train
