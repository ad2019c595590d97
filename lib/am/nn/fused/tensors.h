// Helpers of the operators of this folder: which tensors have kernels, and how kernels run.
//
// Most operators have two forms: kernels on the host for float32, float64 and bfloat16; ATen's
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

inline bool has_kernels(const at::Tensor& x) {
  const at::ScalarType dtype = x.scalar_type();
  return (x.device().is_cpu() || x.is_meta()) &&
         (dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16);
}

// Dtype of sums and statistics: float32, or float64 for float64.
inline at::ScalarType wide_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

// Calls `visit` with a value of the dtype's C++ type; requires a dtype that has kernels.
template <typename Visit>
void visit_dtype(at::ScalarType dtype, const Visit& visit) {
  if (dtype == at::kFloat) return visit(float());
  if (dtype == at::kDouble) return visit(double());
  visit(c10::BFloat16());
}

// Runs `step` on ranges [begin, end) of rows on the thread pool. `width` is the number of elements
// per row: small tensors run on few threads.
template <typename Step>
void for_rows(int64_t rows, int64_t width, const Step& step) {
  constexpr int64_t kGrain = 32768;
  tensor::parallel_for(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width)), step);
}

}  // namespace am::nn::fused
