// Test for infinities and NaN.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::tensor {

// Whether all elements are finite. For finite elements, one pass that sums them usually suffices.
// True for tensors without contents: undefined, empty, on the meta device.
bool all_finite(const at::Tensor& tensor);

}  // namespace am::tensor
