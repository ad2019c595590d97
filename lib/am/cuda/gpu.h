// Chooses and opens a rank's GPU among the GPUs that the process sees. Opening a GPU initialises
// it, makes it the calling thread's current device, binds this thread to cores near the GPU
// (runtime/near_cores.h), and starts to compile the GPU kernels (compiled_kernels.h).
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "am/launch/environment/environment.h"

namespace am::cuda {

// Opens and returns the rank's GPU for NCCL: the GPU with number `here.local_rank` modulo the
// number of GPUs. Throws Error(kRuntime) unless local_rank is below the number of GPUs times
// AM_RANKS_PER_GPU (default 1).
c10::Device own_gpu(const launch::RankEnvironment& here);
// Opens and returns the GPU with number `here.local_rank` modulo the number of GPUs, for backends
// whose ranks may share GPUs. Throws Error(kRuntime) if the process sees no GPU.
c10::Device share_gpu(const launch::RankEnvironment& here);
// Returns the GPU's name as in cudaDeviceProp.
std::string gpu_name(c10::Device gpu);

}  // namespace am::cuda
