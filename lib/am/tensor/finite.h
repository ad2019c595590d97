// Test for infinities and NaN.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::tensor {

// Whether all elements are finite. If they are, one pass is enough: a sum is finite only if all its
// terms are. True for tensors without contents: undefined, empty, on the meta device.
bool all_finite(const at::Tensor& tensor);

}  // namespace am::tensor
