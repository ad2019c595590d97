// The orthogonal factor of a matrix, nearly: what Muon puts in the place of its momentum.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::optim {

// torch.optim.Muon's five Newton-Schulz iterations in bfloat16, with Keller Jordan's coefficients.
// For matrix = U S V^T about U V^T: the singular values end between 0.7 and 1.2, which is as good.
// [A, B], floating-point -> [A, B] bfloat16. A bfloat16 matrix is overwritten; given away it is
// freed after the first iteration.
at::Tensor orthogonal_factor(at::Tensor matrix);

}  // namespace am::optim
