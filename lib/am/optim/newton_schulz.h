// Approximate orthogonal factor of a matrix. Muon updates a matrix by the factor of its momentum.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::optim {

// Returns approximately U V^T for matrix = U S V^T, by torch.optim.Muon's five Newton-Schulz
// iterations in bfloat16 with Keller Jordan's coefficients. The result's singular values are
// between 0.7 and 1.2, which is sufficient for Muon. The matrix has any floating-point dtype, the
// result is bfloat16. A bfloat16 matrix is overwritten; if moved in, it is freed after the first
// iteration.
at::Tensor orthogonal_factor(at::Tensor matrix);

}  // namespace am::optim
