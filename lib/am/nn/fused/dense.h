// A dense copy of a matrix that may be a transposed view.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// a_MK, two-dimensional, in rows of K without gaps: itself where it is already, else a copy; no
// graph. ATen's copy of a part of a transposed matrix goes element by element; this one goes by
// blocks of 16 x 16 for float32 of the host.
at::Tensor dense(const at::Tensor& a_MK);

}  // namespace am::nn::fused
