#include "am/tensor/finite.h"

#include <ATen/ATen.h>

namespace am::tensor {

bool all_finite(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_meta() || tensor.numel() == 0) return true;
  const at::NoGradGuard no_grad;
  // The sum of large finite numbers may overflow, so a sum that is not finite proves nothing.
  return at::isfinite(tensor.sum()).item<bool>() || at::isfinite(tensor).all().item<bool>();
}

}  // namespace am::tensor
