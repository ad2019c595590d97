// A linear layer with a low-rank adapter, y = W x + b + scale * B (A x), in one node: W has no
// gradient where it is frozen, and then x is kept for A's alone. With dropout A reads dropped x.
//
// Kept until backward: x as it came, A x, and the matrices; what was dropped is drawn again. The
// adapter's part is added in place, so that outputs are as large as without it.
#pragma once

#include <ATen/core/Tensor.h>

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

// As sliced_linear, autocast included; B's rows are in the slices' order.
std::vector<at::Tensor> adapted_linear(const at::Tensor& x, const at::Tensor& weight,
                                       const std::optional<at::Tensor>& bias,
                                       const LowRank& adapter, const Slices& slices);

}  // namespace am::nn::fused
