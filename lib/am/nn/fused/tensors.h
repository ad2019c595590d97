// What the operators of this folder share: which tensors have kernels, and the way to them.
//
// Each operator has two forms. On the host, in float32, float64 and bfloat16, kernels; on other
// devices and in other dtypes, ATen's operators. Both keep the same tensors until backward, so a
// device's memory is predicted by one formula (planner/layer_activations.h). The meta device
// follows the host: the same allocations, and no kernel runs.
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

// Of sums and statistics: float32, or float64 for float64.
inline at::ScalarType wide_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

// Calls `visit` with a value of the dtype's type; the dtype has kernels.
template <typename Visit>
void visit_dtype(at::ScalarType dtype, const Visit& visit) {
  if (dtype == at::kFloat) return visit(float());
  if (dtype == at::kDouble) return visit(double());
  visit(c10::BFloat16());
}

// Rows [begin, end) on each thread of the pool; `width` elements a row tell whether it is worth it.
template <typename Step>
void for_rows(int64_t rows, int64_t width, const Step& step) {
  constexpr int64_t kGrain = 32768;
  tensor::parallel_for(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width)), step);
}

}  // namespace am::nn::fused
