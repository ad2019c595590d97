#include "am/config/batch.h"

#include <algorithm>

namespace am::config {

BatchShape batch_shape(const Plan& plan, int64_t dp) {
  BatchShape batch;
  batch.one_each = plan.train.micro_batch_size * dp;
  if (plan.mesh.pp_size > 1) {
    batch.in_round = microbatches_of_round(plan.pipeline, plan.mesh.pp_size);
  }
  batch.sequences = plan.train.global_batch_size > 0 ? plan.train.global_batch_size
                                                     : batch.one_each * batch.in_round;
  batch.micro_batches = std::max<int64_t>(1, batch.sequences / batch.one_each);
  const bool one_round = std::holds_alternative<MegatronConfig>(plan.strategy);
  if (one_round && plan.mesh.pp_size > 1 && plan.pipeline.microbatches == 0) {
    batch.in_round = batch.micro_batches;
  }
  return batch;
}

int64_t microbatches_of_round(const PipelineSection& pipeline, int64_t pp) {
  return pipeline.microbatches > 0 ? pipeline.microbatches : pp * pipeline.virtual_stages;
}

}  // namespace am::config
