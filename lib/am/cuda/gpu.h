// Chooses a rank's GPU among those that the process sees. Initialises it, makes it the calling
// thread's current device, binds the thread to cores near it (runtime/near_cores.h), and starts to
// compile the GPU kernels (compiled_kernels.h).
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "am/launch/environment/environment.h"

namespace am::cuda {

// Returns the rank's GPU for NCCL: GPU `here.local_rank` modulo the number of GPUs. Throws
// Error(kRuntime) if local_rank is not below the number of GPUs times AM_RANKS_PER_GPU (default 1).
c10::Device own_gpu(const launch::RankEnvironment& here);
// Returns GPU `here.local_rank` modulo the number of GPUs, for backends whose ranks may share GPUs.
// Throws Error(kRuntime) if there is no GPU.
c10::Device share_gpu(const launch::RankEnvironment& here);
// Returns the GPU's name in its cudaDeviceProp.
std::string gpu_name(c10::Device gpu);

}  // namespace am::cuda
