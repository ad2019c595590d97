#include "am/train/setup.h"

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/config/batch.h"

namespace am::train {

BatchSizes batch_sizes(const config::Plan& plan, const mesh::MeshSizes& sizes) {
  const config::BatchShape batch = config::batch_shape(plan, sizes.dp());
  AM_ASSERT(batch.divides_over_ranks(), "the plan was not checked: batch.divide");
  return {.global_batch = batch.sequences, .micro_batches = batch.micro_batches};
}

std::vector<at::Tensor> trained_gradients(const parallel::ParallelModel& model) {
  std::vector<at::Tensor> flat;
  for (const auto& group : model.groups()) flat.push_back(group->flat_grad());
  return flat;
}

std::vector<optim::GradientShard> gradient_shards(parallel::ParallelModel& model) {
  std::vector<optim::GradientShard> shards;
  model.for_each_owned(
      [&](parallel::ParamGroup& group, size_t i, const parallel::LocalParameter& owned) {
        if (!owned.trainable) return;
        const bool counted = owned.first_replica || fault::is_planted(fault::Fault::kNormReplicas);
        shards.push_back({group.view_in(group.flat_grad(), i), counted});
      });
  return shards;
}

}  // namespace am::train
