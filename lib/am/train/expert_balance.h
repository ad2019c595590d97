// Balances the load of experts without an auxiliary loss (DeepSeek-V3, 2024): an expert's routing
// bias decreases if more tokens than the mean were routed to the expert, and increases if fewer
// were.
#pragma once

#include <span>

#include "am/parallel/parallel_model.h"

namespace am::train {

// Updates this rank's part of each layer's routing biases: b_i += rate * sign(mean - c_i), with the
// bias b_i of expert i, the count c_i of tokens that were routed to expert i, and the mean of the
// layer's counts. `counts` contains the counts over the global batch: first the counts of the first
// layer with experts, then those of the second, and so on. A layer without routed tokens is
// unchanged.
void move_correction_biases(parallel::ParallelModel& model, std::span<const double> counts,
                            double rate);

}  // namespace am::train
