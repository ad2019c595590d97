#include "am/optim/clip.h"

#include <ATen/ATen.h>

#include <cmath>

namespace am::optim {

at::Tensor squared_norm(const std::vector<GradientShard>& shards) {
  const at::NoGradGuard no_grad;
  at::Tensor sum;  // on the gradients' device: a GPU is asked for one number, not one a shard
  for (const auto& shard : shards) {
    if (!shard.counted || !shard.gradient.defined() || shard.gradient.numel() == 0) continue;
    const at::Tensor norm =
        at::linalg_vector_norm(shard.gradient, 2, at::OptionalIntArrayRef{}, false, at::kDouble);
    sum = sum.defined() ? sum + norm * norm : norm * norm;
  }
  if (!sum.defined()) sum = at::zeros({}, at::kDouble);
  return sum.reshape({1});
}

double global_norm(const std::vector<GradientShard>& shards, const runtime::Group& world) {
  const at::Tensor square = squared_norm(shards).to(world.device());
  world.all_reduce(square);
  return std::sqrt(square.item<double>());
}

double clip_factor(double norm, double max_norm) {
  if (max_norm <= 0.0) return 1.0;
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1.0 ? 1.0 : factor;  // NaN stays NaN
}

}  // namespace am::optim
