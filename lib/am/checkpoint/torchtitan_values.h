// The state of torchtitan's trainer in an export with optimizer states: learning-rate schedule and
// step.
#pragma once

#include "am/checkpoint/export_optimizer.h"

namespace am::checkpoint {

// Appends lr_scheduler and train_state, which torchtitan's loader requires, to `values`. `step`:
// the number of the training step.
void add_torchtitan_trainer(OptimizerValues& values, const ExportedOptimizer& optimizer,
                            int64_t step);

}  // namespace am::checkpoint
