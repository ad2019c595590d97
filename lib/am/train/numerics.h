// How a GPU computes: train.deterministic and train.matmul_precision.
#pragma once

#include "am/config/plan.h"

namespace am::train {

// Sets both for the whole process, as PyTorch's use_deterministic_algorithms and
// set_float32_matmul_precision do, and CUBLAS_WORKSPACE_CONFIG where deterministic kernels need it
// and the environment has none. Call it before anything is on a GPU and before other threads read
// the environment.
void set_numerics(const config::TrainSection& train);

}  // namespace am::train
