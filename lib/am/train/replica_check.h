// Compares the replicas of parameters and optimizer states during training
// (checkpoint.verify_replicas), except for quantized parameters, which are frozen. Replicas that
// start equal and receive equal updates stay equal bit for bit; a difference means a defective
// device or a computation that is not deterministic.
#pragma once

#include <cstdint>

#include "am/optim/optimizer.h"
#include "am/parallel/parallel_model.h"

namespace am::train {

// Throws Error(kNumeric) if two ranks that hold the same part of a parameter or of an optimizer
// state hold different values. The error names `step` (the number of finished steps), the first
// tensor that differs, and the ranks that do not have the most frequent values (all ranks on a
// tie). A rank sends two hashes for each set of ranks with which it shares parts. If the hashes of
// a set differ, its ranks also send two hashes per part. Collective.
void require_equal_replicas(parallel::ParallelModel& model, const optim::Optimizer& optimizer,
                            int64_t step);

}  // namespace am::train
