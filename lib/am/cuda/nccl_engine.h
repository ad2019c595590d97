// Engine for GPU tensors: c10d's NCCL process group on the GPU that the local rank selects.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::cuda {

// Returns an engine on own_gpu(here), see gpu.h. Throws Error(kRuntime) if there are too few GPUs,
// if AM_RANKS_PER_GPU requires sharing GPUs and this version of NCCL does not support it, or if
// libtorch was built with another nccl.h than this plugin.
std::shared_ptr<runtime::Engine> make_nccl_engine(const launch::RankEnvironment& here);

}  // namespace am::cuda
