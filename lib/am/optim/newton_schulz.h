// Computes the approximate orthogonal factor of a matrix. Muon updates a parameter by the
// orthogonal factor of its momentum.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::optim {

// Returns approximately U V^T for matrix = U S V^T, by torch.optim.Muon's five Newton-Schulz
// iterations in bfloat16 with Keller Jordan's coefficients. Singular values of the result are
// typically between 0.7 and 1.2, which suffices for Muon. The argument may have any floating-point
// dtype; the result is bfloat16. A bfloat16 argument is overwritten, and freed after the first
// iteration if it was moved in.
at::Tensor orthogonal_factor(at::Tensor matrix);

}  // namespace am::optim
