// Computes c * tanh(x / c), which bounds logits to (-c, c). The function is elementwise, so that a
// rank with a slice of the vocabulary needs no communication.
//
// Keeps tanh(x / c) until backward, instead of x.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// Returns the capped logits as a new tensor, and overwrites `x`. Neither the caller nor a backward
// may read `x` afterwards; if `x` is the output of a matrix product, no backward does.
at::Tensor soft_cap(const at::Tensor& x, double cap);

}  // namespace am::nn::fused
