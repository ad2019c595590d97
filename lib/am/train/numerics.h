// Numerics of the GPU: train.deterministic and train.matmul_precision.
#pragma once

#include "am/config/plan.h"

namespace am::train {

// Sets both for the whole process, as PyTorch's use_deterministic_algorithms and
// set_float32_matmul_precision do; if train.deterministic, also sets CUBLAS_WORKSPACE_CONFIG unless
// the environment does. Call it before the first use of a GPU and before other threads read the
// environment.
void set_numerics(const config::TrainSection& train);

}  // namespace am::train
