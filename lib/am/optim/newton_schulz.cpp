#include "am/optim/newton_schulz.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "am/base/error.h"

namespace am::optim {

namespace {

constexpr int kIterations = 5;
constexpr double kA = 3.4445;
constexpr double kB = -4.7750;
constexpr double kC = 2.0315;
constexpr double kSmallestNorm = 1e-7;

}  // namespace

at::Tensor orthogonal_factor(at::Tensor matrix) {
  AM_ASSERT(matrix.dim() == 2, "Muon is for matrices");
  const at::NoGradGuard no_grad;
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = matrix.to(at::kBFloat16);
  matrix.reset();
  if (tall) x = x.t();
  // Division by the Frobenius norm makes all singular values at most 1.
  x.div_(at::linalg_vector_norm(x, 2).clamp_min(kSmallestNorm));
  for (int i = 0; i < kIterations; ++i) {
    const at::Tensor gram = at::mm(x, x.t());
    const at::Tensor update = at::addmm(gram, gram, gram, kB, kC);
    x = at::addmm(x, update, x, kA);
  }
  return tall ? x.t() : x;
}

}  // namespace am::optim
