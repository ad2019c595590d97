// act(gate) * up in one pass, forward and backward, for an activation function act.
//
// Only gate and up are kept until backward, which recomputes act(gate). ATen's two operators, the
// activation and the multiplication, would also keep act(gate). In dtypes narrower than float32,
// values are computed in float32 and rounded where ATen's operators would round. Legend: F
// feed-forward, D hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/model/spec.h"
#include "am/nn/fused/linear.h"

namespace am::nn::fused {

// Returns act(gate) * up. gate and up have one shape and one dtype. For all functions of this file,
// `activation` is any activation except kClampedSilu and kOther.
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, model::Activation activation);

// Returns fused::linear of gated(gate, up, activation), [.., D], for weight_DF and bias_D. The
// result of gated() is not kept; backward recomputes it in one more pass over gate and up. Bitwise
// equal to the two separate operators, forward and backward.
at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, model::Activation activation,
                        const WeightForm& form = {});

// Variant of gated_linear without a gate: fused::linear of activation(wide).
at::Tensor activated_linear(const at::Tensor& wide, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, model::Activation activation,
                            const WeightForm& form = {});
// Returns activation(wide), computed by ATen's operators.
at::Tensor activated(const at::Tensor& wide, model::Activation activation);

struct GatedGradients {
  at::Tensor of_gate, of_up;
};
// Returns the gradients of gate and up, from the gradient of gated's output. Builds no autograd
// graph. Bitwise equal to gated's own backward.
GatedGradients gated_gradients(const at::Tensor& gradient, const at::Tensor& gate,
                               const at::Tensor& up, model::Activation activation);

}  // namespace am::nn::fused
