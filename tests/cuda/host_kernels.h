// Provides the kernels of am/cuda/kernels, run on the host (host_cuda.h), as tensor::GpuKernels.
//
//   tensor::use_on_host(&host_kernels());      // operators on host tensors use them
//   nn::fused::gated(gate, up, activation);    // runs the kernel gated_silu on fibers
//
// Grids and arguments are those of GPUs (am/cuda/kernel_launches.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "am/tensor/gpu_kernels.h"
#include "cuda/host_cuda.h"

namespace am::test {

namespace host_cuda {

// Runs a kernel, in the version for bfloat16 or for float32. `arguments` are pointers to its
// arguments. Throws std::logic_error if there is no such kernel.
void run_kernel(std::string_view name, bool bfloat16, const Blocks& grid, void** arguments);

}  // namespace host_cuda

// Returns the kernels, which require host tensors.
const tensor::GpuKernels& host_kernels();

// While an object exists, kernels run only in the last `count` blocks of their grids.
class LastBlocks {
 public:
  explicit LastBlocks(int64_t count);
  ~LastBlocks();
  LastBlocks(const LastBlocks&) = delete;
  LastBlocks& operator=(const LastBlocks&) = delete;
};

// Returns the number of kernels launched so far.
int64_t launches();

}  // namespace am::test
