// A linear layer with a low-rank adapter, y = W x + b + scale * B (A x), in one autograd node. A
// frozen W receives no gradient; x is then kept only for the gradient of A. With dropout, A reads x
// after dropout.
//
// Kept until backward: x before dropout, A x, and the matrices. Backward recomputes the dropout
// mask. The adapter's term is added to the outputs in place, so the outputs need no more memory
// than without an adapter. Legend: I inputs, O outputs, R the adapter's rank.
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

// Returns the outputs that sliced_linear returns for the layer without an adapter, with the
// adapter's term added; known outputs (Slices::known) must already include this term. The rows of B
// are in the order of the slices. All operands are cast to the autocast dtype or, without autocast,
// to x's dtype.
std::vector<at::Tensor> adapted_linear(const at::Tensor& x, const at::Tensor& weight,
                                       const std::optional<at::Tensor>& bias,
                                       const LowRank& adapter, const Slices& slices);

// Returns the 2-norm of each row of W + scale * B A, [O], in float32 (float64 for float64), without
// computing this matrix. Builds no autograd graph. `in_out`: the weight is stored as [I, O]. If the
// columns of W and A are sharded over ranks, `sum` sums a tensor over these ranks in place;
// otherwise `sum` is empty.
at::Tensor adapted_norms(const at::Tensor& weight, bool in_out, const LowRank& adapter,
                         const std::function<void(const at::Tensor&)>& sum = {});

}  // namespace am::nn::fused
