// Kernels that NVRTC compiles for this machine's GPU (kernel_text.h), as tensor::GpuKernels.
//
// The compiled code is cached in $XDG_CACHE_HOME/automesh/kernels or, without this variable, in
// ~/.cache/automesh/kernels. The file name is a hash of the source text, the compiler options
// (which contain the GPU's architecture) and NVRTC's version. NVRTC is a dependency of PyTorch's
// CUDA wheels. If NVRTC is missing or fails, a warning is printed and ATen's operators run instead.
#pragma once

#include <c10/core/Device.h>

#include "am/tensor/gpu_kernels.h"

namespace am::cuda {

const tensor::GpuKernels& compiled_kernels();

// Starts to compile all kernels for the device on other threads, so that the first use of a kernel
// waits less.
void start_compiling(c10::Device device);

}  // namespace am::cuda
