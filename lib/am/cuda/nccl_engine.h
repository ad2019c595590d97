// The engine of GPU tensors: c10d's NCCL group on the GPU of this rank's local rank.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::cuda {

// The GPU is number `here.local_rank` of those that CUDA_VISIBLE_DEVICES leaves, and is the calling
// thread's current one from then on. Throws Error(kRuntime): too few GPUs; a libtorch that was
// built with another nccl.h than this plugin.
std::shared_ptr<runtime::Engine> make_nccl_engine(const launch::RankEnvironment& here);

}  // namespace am::cuda
