// A linear layer whose three products go through fused::product, and its gradients for who knows
// the layer's output already.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace am::nn::fused {

// x_..I, weight_OI, bias_O -> ..O. What at::linear does and saves, autocast included.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias);

struct LinearGradients {
  at::Tensor of_x, of_weight, of_bias;  // undefined where nobody asked
};
struct LinearNeeds {
  bool x = false, weight = false, bias = false;
};
// From the gradient ..O of linear's output; no graph. The same bits as linear's own backward. `x`
// may be undefined where the weight's is not asked for.
LinearGradients linear_gradients(const at::Tensor& gradient, const at::Tensor& x,
                                 const at::Tensor& weight, const LinearNeeds& needs);

}  // namespace am::nn::fused
