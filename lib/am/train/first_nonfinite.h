// Where a step's numbers stopped being finite.
#pragma once

#include <cstdint>
#include <string>

#include "am/parallel/parallel_model.h"
#include "am/train/step.h"

namespace am::train {

// Runs the forward of the step's micro-batches once more, without a graph and without adapters'
// dropout: "the output of model.layers.3 in micro-batch 2 on rank 5 (stage 1)", the first one in
// the order of micro-batches and of the model that is not finite. Empty: all are, so that it was
// backward's. Collective over all ranks, and the same on all.
std::string first_nonfinite_output(parallel::ParallelModel& model, BatchSource& batches,
                                   int64_t step, int64_t micro_batches);

}  // namespace am::train
