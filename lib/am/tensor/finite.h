// Test for infinities and NaN.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::tensor {

// Whether all elements are finite. Needs one pass if they are: a sum with a non-finite term is not
// finite. True for tensors without contents: undefined, empty, on the meta device.
bool all_finite(const at::Tensor& tensor);

}  // namespace am::tensor
