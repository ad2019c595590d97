// What an optimizer remembers, as a checkpoint has it.
#pragma once

#include <string>
#include <vector>

#include "am/checkpoint/checkpoint.h"
#include "am/optim/optimizer.h"
#include "am/parallel/parallel_model.h"

namespace am::train {

// Views into the optimizer's state, by PyTorch's flattened keys.
std::vector<checkpoint::StateTensor> saved_states(const optim::Optimizer& optimizer,
                                                  const parallel::ParallelModel& model);

}  // namespace am::train
