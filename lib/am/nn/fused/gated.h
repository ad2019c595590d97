// act(gate) * up in one pass, forward and backward.
//
// Keeps gate and up until backward, which computes act(gate) again: not its value, and not the
// two operands of the product beside it. Narrower dtypes compute in float32 and round where ATen's
// two operators would.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/model/spec.h"

namespace am::nn::fused {

// gate, up: of one shape and dtype. `activation`: kSilu, kGeluTanh or kGeluErf.
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, model::Activation activation);

// fused::linear of gated(gate, up, activation), which is not kept either: backward computes it
// again, in one more pass over gate and up. weight_DF, bias_D; ..F -> ..D. The same bits, forward
// and backward, as the two operators one after the other.
at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, model::Activation activation);

// The same without a gate: fused::linear of activation(wide). `in_out`: the weight is stored [F,
// D].
at::Tensor activated_linear(const at::Tensor& wide, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, model::Activation activation,
                            bool in_out);
// activation(wide), which ATen has a single pass for.
at::Tensor activated(const at::Tensor& wide, model::Activation activation);

struct GatedGradients {
  at::Tensor of_gate, of_up;
};
// From the gradient of gated's value; no graph. The bits of gated's own backward.
GatedGradients gated_gradients(const at::Tensor& gradient, const at::Tensor& gate,
                               const at::Tensor& up, model::Activation activation);

}  // namespace am::nn::fused
