// Applies train.deterministic and train.matmul_precision.
#pragma once

#include "am/config/plan.h"

namespace am::train {

// Sets determinism and matmul precision for the whole process, as PyTorch's
// use_deterministic_algorithms and set_float32_matmul_precision do. If train.deterministic is true,
// also sets the environment variable CUBLAS_WORKSPACE_CONFIG, unless the environment contains it
// already. Must be called before the first use of a GPU, and before other threads read the
// environment.
void set_numerics(const config::TrainSection& train);

}  // namespace am::train
