// c * tanh(x / c): bounds logits to (-c, c). Elementwise, so each slice of a sharded vocabulary
// computes its own part.
//
// Keeps tanh(x / c) until backward, instead of x.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// Returns the capped logits as a new tensor, and overwrites `x`, which must have no other reader,
// such as a product's output.
at::Tensor soft_cap(const at::Tensor& x, double cap);

}  // namespace am::nn::fused
