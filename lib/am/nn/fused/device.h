// Decides which tensors use ATen's GPU kernels, in operations for which ATen has kernels on GPUs
// but not on the host: RMSNorm, and attention with windows and documents.
//
// The kernels are called by their ATen names. Tests of the calling code need no GPU: a test
// registers host kernels under these names (TORCH_LIBRARY_IMPL) and makes host tensors pass for GPU
// tensors (PassForGpu).
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// Whether x is on a GPU. Also true for floating-point host tensors in the scope of a test's
// PassForGpu.
bool on_gpu(const at::Tensor& x);
// Whether x is on a GPU in bfloat16 or float16, the only dtypes of the GPU kernels of
// attention/flash_kernels.h. Also true, in any floating-point dtype, for host tensors in the scope
// of a test's PassForGpu.
bool narrow_on_gpu(const at::Tensor& x);

// Returns x on `device`, or x itself if x is already there. The host does not wait for a copy from
// the host to a GPU.
at::Tensor uploaded(const at::Tensor& x, const at::Device& device);

// Scope for tests: while it exists, on_gpu() and narrow_on_gpu() are true for floating-point host
// tensors, on all threads.
class PassForGpu {
 public:
  PassForGpu();
  ~PassForGpu();
  PassForGpu(const PassForGpu&) = delete;
  PassForGpu& operator=(const PassForGpu&) = delete;
};

}  // namespace am::nn::fused
