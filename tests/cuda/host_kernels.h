// Provides the kernels of am/cuda/kernels, run on the host (host_cuda.h), as tensor::GpuKernels.
//
//   tensor::use_on_host(&host_kernels());      // operators on host tensors use them
//   nn::fused::gated(gate, up, activation);    // runs the kernel gated_silu on fibers
//
// Kernels are launched with the grids and arguments that they receive on a GPU
// (am/cuda/kernel_launches.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "am/tensor/gpu_kernels.h"
#include "cuda/host_cuda.h"

namespace am::test {

namespace host_cuda {

// Runs the kernel `name`, in the version for bfloat16 or for float32. `arguments` are pointers to
// the kernel's arguments. Throws std::logic_error if no kernel is named `name`.
void run_kernel(std::string_view name, bool bfloat16, const Blocks& grid, void** arguments);

}  // namespace host_cuda

// Returns the kernels, which require host tensors.
const tensor::GpuKernels& host_kernels();

// While a LastBlocks exists, kernels run only in the last `count` blocks of their grids.
class LastBlocks {
 public:
  explicit LastBlocks(int64_t count);
  ~LastBlocks();
  LastBlocks(const LastBlocks&) = delete;
  LastBlocks& operator=(const LastBlocks&) = delete;
};

// Returns how often the kernels of host_kernels() were launched so far.
int64_t launches();

}  // namespace am::test
