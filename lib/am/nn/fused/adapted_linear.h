// A linear layer with a low-rank adapter, y = W x + b + scale * B (A x), in one autograd node. If W
// is frozen it has no gradient, and x is kept for A's gradient only. With dropout, A reads x after
// dropout.
//
// Kept until backward: x before dropout, A x, and the matrices; the dropout mask is recomputed. The
// adapter's term is added to the outputs in place, so that they take no more memory than without an
// adapter.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "am/nn/fused/dropout.h"
#include "am/nn/fused/linear.h"

namespace am::nn::fused {

struct LowRank {
  at::Tensor a_RI, b_OR;
  double scale = 1.0;
  std::optional<Dropout> dropout = {};
};

// Works like sliced_linear, also under autocast. The rows of B are in the order of the slices.
std::vector<at::Tensor> adapted_linear(const at::Tensor& x, const at::Tensor& weight,
                                       const std::optional<at::Tensor>& bias,
                                       const LowRank& adapter, const Slices& slices);

// Returns the 2-norm of each row of W + scale * B A, [O], in float32 (float64 for float64), without
// computing this matrix. Builds no autograd graph. `in_out`: the weight is stored as [I, O]. `sum`,
// if not empty, sums a tensor over the ranks that hold the columns of W and A, in place.
at::Tensor adapted_norms(const at::Tensor& weight, bool in_out, const LowRank& adapter,
                         const std::function<void(const at::Tensor&)>& sum = {});

}  // namespace am::nn::fused
