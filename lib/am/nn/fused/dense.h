// A dense copy of a matrix that may be a transposed view.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// Returns the two-dimensional a_MK as contiguous rows of K elements: a_MK itself if it is
// contiguous, otherwise a copy. Builds no autograd graph. ATen copies a slice of a transposed
// matrix element by element; for float32 on the host, this function copies blocks of up to 16 x 16
// elements.
at::Tensor dense(const at::Tensor& a_MK);

}  // namespace am::nn::fused
