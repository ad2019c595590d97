// Whether a tensor is free of infinities and NaN.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::tensor {

// One pass where all is well: a sum over anything that is not finite is not finite. True for what
// has no contents: undefined, empty, on the meta device.
bool all_finite(const at::Tensor& tensor);

}  // namespace am::tensor
