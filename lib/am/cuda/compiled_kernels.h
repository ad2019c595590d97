// Kernels that NVRTC compiles for this machine's GPU (kernel_text.h), as tensor::GpuKernels.
//
// The compiled code is kept in $XDG_CACHE_HOME/automesh/kernels, or ~/.cache/automesh/kernels,
// under a hash of its source text, the compiler options (with the GPU's architecture) and NVRTC's
// version. NVRTC is a dependency of PyTorch's CUDA wheels. If NVRTC is missing or fails, ATen's
// operators run instead, after a warning.
#pragma once

#include <c10/core/Device.h>

#include "am/tensor/gpu_kernels.h"

namespace am::cuda {

const tensor::GpuKernels& compiled_kernels();

// Starts to compile the kernels for the device on other threads, so that the first use waits less.
void start_compiling(c10::Device device);

}  // namespace am::cuda
