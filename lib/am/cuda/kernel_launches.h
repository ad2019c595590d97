// Computes grids and arguments of the GPU kernels (am/cuda/kernels/*.cu), without depending on
// CUDA. tensor::register_gpu_kernels(kernels_by(launch)) makes operators use the kernels.
//
// compiled_kernels.cpp launches the kernels on a GPU. Tests run the same kernels, with the same
// grids and arguments, on the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "am/cuda/kernel_text.h"
#include "am/tensor/gpu_kernels.h"

namespace am::cuda {

struct Grid {
  int64_t blocks = 0;  // below 2^31
  int threads = 256;   // per block
};

// Launches the kernel `name` for the device and dtype of `on`. `arguments` points to an array with
// the address of each argument of the kernel. Returns false if the kernel is not available.
using Launch = bool (*)(Part part, const at::Tensor& on, const char* name, const Grid& grid,
                        void** arguments);

// Returns the kernels, and makes `launch` the function that launches them. A process has only one
// such function: each call replaces the previous one.
const tensor::GpuKernels& kernels_by(Launch launch);

}  // namespace am::cuda
