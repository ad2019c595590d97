// Lists the optimizer's states as tensors of a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "am/checkpoint/checkpoint.h"
#include "am/optim/optimizer.h"
#include "am/parallel/parallel_model.h"
#include "am/stored/tensor_source.h"

namespace am::train {

// Returns views into the optimizer's states, with the names that PyTorch's flattened optimizer
// state has.
std::vector<checkpoint::StateTensor> saved_states(const optim::Optimizer& optimizer,
                                                  const parallel::ParallelModel& model);

// Throws Error(kFormat) if a checkpoint lacks one of the states, for example because the parameter
// was frozen. With zeros for missing moments, Adam's first updates would be three times too large,
// because the bias correction uses the resumed step number.
void require_states(const stored::TensorSource& source,
                    const std::vector<checkpoint::StateTensor>& states);

}  // namespace am::train
