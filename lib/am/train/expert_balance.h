// Balances expert load without an auxiliary loss (DeepSeek-V3, 2024): each expert's bias on routing
// decreases if more tokens than the mean were routed to it, and increases otherwise.
#pragma once

#include <span>

#include "am/parallel/parallel_model.h"

namespace am::train {

// Updates this rank's part of each layer's correction bias: b_i += rate * sign(mean - c_i).
// `counts`: number of tokens of the global batch routed to each expert, one layer with experts
// after another. A layer without routed tokens is unchanged.
void move_correction_biases(parallel::ParallelModel& model, std::span<const double> counts,
                            double rate);

}  // namespace am::train
