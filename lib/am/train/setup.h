// Derives batch sizes from the plan, and collects the model's gradients for the optimizer.
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
  int64_t global_batch = 1;   // number of sequences per optimizer step, over all ranks
  int64_t micro_batches = 1;  // number of micro-batches per rank and step
};

// Returns the batch sizes for a mesh of these sizes. The plan must have passed the rule
// batch.divide of plan checking.
BatchSizes batch_sizes(const config::Plan& plan, const mesh::MeshSizes& sizes);

// Returns the flat gradient tensor of each ParamGroup of the model (ParamGroup::flat_grad). The
// tensors of groups with trainable parameters are defined after backward.
std::vector<at::Tensor> trained_gradients(const parallel::ParallelModel& model);

}  // namespace am::train
