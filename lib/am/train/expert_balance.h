// Keeps experts evenly taken without a loss (DeepSeek-V3, 2024): a bias on the choice of each
// expert that more tokens took than the mean falls, and the others' rise.
#pragma once

#include <span>

#include "am/parallel/parallel_model.h"

namespace am::train {

// b_i += rate * sign(mean - c_i) of each layer's correction bias; this rank's part of them.
// `counts`: how many tokens of the global batch took each expert, layer after layer of those with
// experts. A layer that no token passed stays as it is.
void move_correction_biases(parallel::ParallelModel& model, std::span<const double> counts,
                            double rate);

}  // namespace am::train
