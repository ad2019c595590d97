#include "am/train/setup.h"

#include "am/base/error.h"
#include "am/config/batch.h"

namespace am::train {

BatchSizes batch_sizes(const config::Plan& plan, const mesh::MeshSizes& sizes) {
  const config::BatchShape batch = config::batch_shape(plan, sizes.dp());
  AM_ASSERT(batch.divides_over_ranks(), "the plan did not pass the rule batch.divide");
  return {.global_batch = batch.sequences, .micro_batches = batch.micro_batches};
}

std::vector<at::Tensor> trained_gradients(const parallel::ParallelModel& model) {
  std::vector<at::Tensor> flat;
  for (const auto& group : model.groups()) flat.push_back(group->flat_grad());
  return flat;
}

}  // namespace am::train
