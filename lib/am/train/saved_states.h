// Lists the optimizer's states as tensors of a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "am/checkpoint/checkpoint.h"
#include "am/optim/optimizer.h"
#include "am/parallel/parallel_model.h"
#include "am/stored/tensor_source.h"

namespace am::train {

// Returns views into the optimizer's states. Their names are those of PyTorch's flattened optimizer
// state dict, for example "optim.state.model.norm.weight.exp_avg".
std::vector<checkpoint::StateTensor> saved_states(const optim::Optimizer& optimizer,
                                                  const parallel::ParallelModel& model);

// Throws Error(kFormat) if a checkpoint lacks one of the states, for example because the parameter
// was frozen. Missing moments must not be replaced by zeros: Adam's first updates would be about
// three times too large, because the bias correction uses the resumed step number.
void require_states(const stored::TensorSource& source,
                    const std::vector<checkpoint::StateTensor>& states);

}  // namespace am::train
