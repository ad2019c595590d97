// c * tanh(x / c): logits that never leave (-c, c), each on its own, so a slice of a vocabulary
// computes its part.
//
// Keeps tanh(x / c) until backward, in the place of x.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// `x` is overwritten: give a product's output that nobody else reads.
at::Tensor soft_cap(const at::Tensor& x, double cap);

}  // namespace am::nn::fused
