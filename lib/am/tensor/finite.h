// Test for infinities and NaN.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::tensor {

// Whether all elements are finite. Sums the elements first; a finite sum proves that all elements
// are finite without a second pass. True for tensors that are undefined, empty or on the meta
// device.
bool all_finite(const at::Tensor& tensor);

}  // namespace am::tensor
