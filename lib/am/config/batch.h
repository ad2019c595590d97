// Sequences of an optimizer step and their division among ranks and rounds of the pipeline.
//
//   const BatchShape batch = batch_shape(plan, mesh.dp());
//   batch.sequences; batch.micro_batches;
#pragma once

#include <cstdint>

#include "am/config/plan.h"

namespace am::config {

struct BatchShape {
  int64_t one_each = 1;       // sequences of one micro-batch over all data-parallel ranks
  int64_t sequences = 1;      // sequences of a step, over all ranks
  int64_t micro_batches = 1;  // micro-batches of a step on each rank, at least 1
  // Micro-batches in one run of the pipeline's schedule; 1 without a pipeline.
  int64_t in_round = 1;

  // The rules batch.size, batch.divide and pp.microbatches require that these two return true.
  bool divides_over_ranks() const { return sequences >= one_each && sequences % one_each == 0; }
  bool divides_into_rounds() const { return micro_batches % in_round == 0; }
};

// Returns the batch for `dp` data-parallel ranks: train.global_batch_size if set, otherwise one
// micro-batch per rank, or one round of the pipeline.
BatchShape batch_shape(const Plan& plan, int64_t dp);

// Micro-batches in one run of the schedule: pipeline.microbatches, or one per stage.
int64_t microbatches_of_round(const PipelineSection& pipeline, int64_t pp);

}  // namespace am::config
