// The engine of GPU tensors: c10d's NCCL group on the GPU of this rank's local rank.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::cuda {

// On own_gpu(here), see gpu.h. Throws Error(kRuntime): too few GPUs; an NCCL that cannot
// share them where AM_RANKS_PER_GPU asks for it; a libtorch that was built with another nccl.h than
// this plugin.
std::shared_ptr<runtime::Engine> make_nccl_engine(const launch::RankEnvironment& here);

}  // namespace am::cuda
