// silu(gate) * up in one pass, forward and backward.
//
// Keeps gate and up until backward, which computes silu(gate) again: not its value, and not the
// two operands of the product beside it. Narrower dtypes compute in float32 and round where ATen's
// two operators would.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// gate, up: of one shape and dtype.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace am::nn::fused
