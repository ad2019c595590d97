// Approximate orthogonal factor of a matrix, which Muon uses instead of the momentum.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::optim {

// torch.optim.Muon's five Newton-Schulz iterations in bfloat16, with Keller Jordan's coefficients.
// For matrix = U S V^T returns about U V^T, with singular values between 0.7 and 1.2, which is
// sufficient for Muon. [A, B], floating-point -> [A, B] bfloat16. A bfloat16 matrix is overwritten;
// if moved in, it is freed after the first iteration.
at::Tensor orthogonal_factor(at::Tensor matrix);

}  // namespace am::optim
