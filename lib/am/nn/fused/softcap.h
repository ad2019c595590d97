// Computes c * tanh(x / c), which bounds logits to (-c, c). The function is elementwise, so a rank
// with a slice of the vocabulary needs no communication.
//
// Keeps tanh(x / c) until backward, instead of x.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// Returns the capped logits as a new tensor, and overwrites `x`. Neither the caller nor a backward
// may read `x` afterwards. The backward of a matrix product does not read its output, so `x` may be
// the output of one.
at::Tensor soft_cap(const at::Tensor& x, double cap);

}  // namespace am::nn::fused
