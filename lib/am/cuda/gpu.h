// Chooses a rank's GPU among those that CUDA_VISIBLE_DEVICES leaves. It is initialised, and is the
// calling thread's current one from then on.
#pragma once

#include <c10/core/Device.h>

#include "am/launch/environment/environment.h"

namespace am::cuda {

// For NCCL: number `here.local_rank`, or that modulo their number where AM_RANKS_PER_GPU lets so
// many ranks share a GPU. Throws Error(kRuntime): there are too few.
c10::Device own_gpu(const launch::RankEnvironment& here);
// Number `here.local_rank` modulo their number, as ranks may share GPUs. Throws Error(kRuntime):
// there is none.
c10::Device share_gpu(const launch::RankEnvironment& here);

}  // namespace am::cuda
