// RMSNorm of rows that are sharded over ranks, such as the norm over all query heads when tensor
// parallelism shards the heads.
//
// Each rank holds its columns of x, weight and y. One number per row is summed over the ranks: the
// sum of squares in forward, and the dot product <n, dn> in backward. With n = x / sqrt(mean(x^2) +
// eps), its gradient dn, and `width` elements per whole row:
//
//   dx = (dn - n sum(<n, dn>) / width) / sqrt(mean(x^2) + eps)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "am/model/spec.h"

namespace am::nn::fused {

struct SharedNorm {
  double eps = 1e-6;
  model::NormKind kind = model::NormKind::kRms;  // defines the rounding (rms_norm.h)
  int64_t width = 0;  // number of elements of a whole row, over all ranks
  // Sums a tensor over the ranks, in place. The function must outlive backward.
  const std::function<void(const at::Tensor& numbers)>* sum = nullptr;
};

// Returns the RMSNorm of this rank's d columns, x [.., d] with a weight [d], in x's dtype. Keeps x
// and one number per row until backward.
at::Tensor shared_rms_norm(const at::Tensor& x, const at::Tensor& weight, const SharedNorm& norm);

}  // namespace am::nn::fused
