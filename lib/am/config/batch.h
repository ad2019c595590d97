// How many sequences an optimizer step has, and how they are divided among ranks and rounds of the
// pipeline: the one place for this arithmetic.
//
//   const BatchShape batch = batch_shape(plan, mesh.dp());
//   batch.sequences; batch.micro_batches;
#pragma once

#include <cstdint>

#include "am/config/plan.h"

namespace am::config {

struct BatchShape {
  int64_t one_each = 1;       // sequences of one micro-batch on each data-parallel rank
  int64_t sequences = 1;      // of a step, over all ranks
  int64_t micro_batches = 1;  // of a step on each rank, at least 1
  int64_t in_round = 1;       // of these in one run of the pipeline's schedule; 1 without one

  // Both must hold: the rules batch.size, batch.divide and pp.microbatches ask for them.
  bool divides_over_ranks() const { return sequences >= one_each && sequences % one_each == 0; }
  bool divides_into_rounds() const { return micro_batches % in_round == 0; }
};

// `dp` data-parallel ranks. train.global_batch_size where the plan has it, else one micro-batch on
// each rank, or one round of the pipeline's.
BatchShape batch_shape(const Plan& plan, int64_t dp);

// Micro-batches of one run of the schedule: pipeline.microbatches, or one for each stage.
int64_t microbatches_of_round(const PipelineSection& pipeline, int64_t pp);

}  // namespace am::config
