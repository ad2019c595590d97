// silu(gate) * up in one pass, forward and backward.
//
// Keeps gate and up until backward, which computes silu(gate) again: not its value, and not the
// two operands of the product beside it. Narrower dtypes compute in float32 and round where ATen's
// two operators would.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace am::nn::fused {

// gate, up: of one shape and dtype.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

// fused::linear of swiglu(gate, up), which is not kept either: backward computes it again, in one
// more pass over gate and up. weight_DF, bias_D; ..F -> ..D. The same bits, forward and backward,
// as the two operators one after the other.
at::Tensor swiglu_linear(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias);

}  // namespace am::nn::fused
