// Tensors for which ATen has kernels on GPUs alone: RMSNorm, attention with windows and documents,
// products of groups of rows.
//
// The kernels are called by their names in ATen. A test without a GPU proves what surrounds them:
// it registers kernels of the host under these names (TORCH_LIBRARY_IMPL), and says that
// tensors of the host pass for a GPU's.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// Whether x lies on a GPU, or passes for it.
bool on_gpu(const at::Tensor& x);
// On a GPU in bfloat16 or float16, which are the dtypes of its attention; passing for it in any.
bool narrow_on_gpu(const at::Tensor& x);

// x on a device, itself where it is there; from the host to a GPU without waiting for what runs
// there.
at::Tensor uploaded(const at::Tensor& x, const at::Device& device);

// For tests: while one lives, floating-point tensors of the host pass for a GPU's, on all threads.
class PassForGpu {
 public:
  PassForGpu();
  ~PassForGpu();
  PassForGpu(const PassForGpu&) = delete;
  PassForGpu& operator=(const PassForGpu&) = delete;
};

}  // namespace am::nn::fused
