// Helpers of this folder's operators: which tensors have host kernels, and how these kernels run.
//
// Most operators have two forms: kernels on the host for float32, float64 and bfloat16, and ATen's
// operators for other devices and dtypes. Some operators also have a GPU kernel
// (tensor/gpu_kernels.h). All forms keep tensors of equal sizes until backward, so one formula
// predicts the memory on every device (predict/memory/layer_activations.h). On the meta device,
// operators allocate as on the host, without running a kernel.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cstdint>

#include "am/tensor/parallel_for.h"

namespace am::nn::fused {

// Whether this folder's host kernels support x's device and dtype. Meta tensors count as host
// tensors.
inline bool has_kernels(const at::Tensor& x) {
  const at::ScalarType dtype = x.scalar_type();
  return (x.device().is_cpu() || x.is_meta()) &&
         (dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16);
}

// Dtype of sums and statistics: float32, or float64 for float64.
inline at::ScalarType wide_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

// Calls `visit` with a value of the dtype's C++ type. has_kernels() must be true for tensors of
// this dtype on the host.
template <typename Visit>
void visit_dtype(at::ScalarType dtype, const Visit& visit) {
  if (dtype == at::kFloat) return visit(float());
  if (dtype == at::kDouble) return visit(double());
  visit(c10::BFloat16());
}

// Calls step(begin, end) for ranges [begin, end) of rows on ATen's threads. `width`: number of
// elements per row. Uses at most one thread per kGrain elements.
template <typename Step>
void for_rows(int64_t rows, int64_t width, const Step& step) {
  constexpr int64_t kGrain = 32768;
  tensor::parallel_for(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width)), step);
}

}  // namespace am::nn::fused
