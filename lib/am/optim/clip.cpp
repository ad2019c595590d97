#include "am/optim/clip.h"

#include <ATen/ATen.h>

#include <cmath>

namespace am::optim {

double global_norm(const std::vector<GradientShard>& shards, const runtime::Group& world) {
  const at::NoGradGuard no_grad;
  at::Tensor sum = at::zeros({1}, at::kDouble);
  for (const auto& shard : shards) {
    if (!shard.counted || !shard.gradient.defined() || shard.gradient.numel() == 0) continue;
    const double norm =
        at::linalg_vector_norm(shard.gradient, 2, at::OptionalIntArrayRef{}, false, at::kDouble)
            .item<double>();
    sum += norm * norm;
  }
  world.all_reduce(sum);
  return std::sqrt(sum.item<double>());
}

double clip_factor(double norm, double max_norm) {
  if (max_norm <= 0.0) return 1.0;
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1.0 ? 1.0 : factor;  // NaN stays NaN
}

}  // namespace am::optim
