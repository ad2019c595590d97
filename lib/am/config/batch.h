// Computes the number of sequences of an optimizer step, and their division among ranks and among
// runs of the pipeline's schedule.
//
//   const BatchShape batch = batch_shape(plan, mesh.dp());
//   batch.sequences; batch.micro_batches;
#pragma once

#include <cstdint>

#include "am/config/plan.h"

namespace am::config {

struct BatchShape {
  int64_t one_each = 1;       // number of sequences if each data-parallel rank runs one micro-batch
  int64_t sequences = 1;      // number of sequences of a step, over all ranks
  int64_t micro_batches = 1;  // number of micro-batches of a step on each rank, at least 1
  // Number of micro-batches in one run of the pipeline's schedule; 1 without a pipeline.
  int64_t in_round = 1;

  // divides_over_ranks() and divides_into_rounds() return true for a plan without errors of the
  // rules batch.size, batch.divide and pp.microbatches.
  bool divides_over_ranks() const { return sequences >= one_each && sequences % one_each == 0; }
  bool divides_into_rounds() const { return micro_batches % in_round == 0; }
};

// Returns the batch for `dp` data-parallel ranks (dp_replicate * dp_shard). The batch has
// train.global_batch_size sequences if this key is set. Otherwise each data-parallel rank has one
// micro-batch or, in a pipeline, the micro-batches of one run of the schedule. Under the strategy
// megatron, one run has all micro-batches of the step if pipeline.microbatches is not set.
BatchShape batch_shape(const Plan& plan, int64_t dp);

// Returns pipeline.microbatches, or the number of stages (pp * virtual_stages) if this key is not
// set. The result is the number of micro-batches in one run of the schedule, except under the
// strategy megatron without this key: see batch_shape(). `pp`: number of pipeline ranks.
int64_t microbatches_of_round(const PipelineSection& pipeline, int64_t pp);

}  // namespace am::config
