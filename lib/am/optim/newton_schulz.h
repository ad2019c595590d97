// Computes the approximate orthogonal factor of a matrix. Muon (muon.h) updates a matrix by the
// orthogonal factor of the matrix's momentum.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::optim {

// Returns an approximation of U V^T in bfloat16, where U S V^T is the singular value decomposition
// of `matrix`. Runs five Newton-Schulz iterations in bfloat16 with Keller Jordan's coefficients,
// like torch.optim.Muon. The singular values of the result are typically between 0.7 and 1.2, which
// suffices for Muon. The argument may have any floating-point dtype. A bfloat16 argument is
// overwritten; if it was moved in, its memory is freed after the first iteration.
at::Tensor orthogonal_factor(at::Tensor matrix);

}  // namespace am::optim
