// Finds the first output of a step that is not finite.
#pragma once

#include <cstdint>
#include <string>

#include "am/parallel/parallel_model.h"
#include "am/train/step.h"

namespace am::train {

// Repeats the forward of the step's micro-batches, without a graph and without adapters' dropout,
// and returns the first output that is not finite, in the order of micro-batches and then of units:
// "the output of model.layers.3 in micro-batch 2 on rank 5 (stage 1)". Returns an empty string if
// all are finite: the non-finite value arose in backward. Collective; every rank returns the same
// text.
std::string first_nonfinite_output(parallel::ParallelModel& model, BatchSource& batches,
                                   int64_t step, int64_t micro_batches);

}  // namespace am::train
