#include "am/optim/clip.h"

#include <ATen/ATen.h>

#include <cmath>

#include "am/base/fault.h"

namespace am::optim {

std::vector<GradientShard> gradient_shards(parallel::ShardedParameters& parameters) {
  std::vector<GradientShard> shards;
  parameters.for_each_owned(
      [&](parallel::ParamGroup& group, size_t i, const parallel::LocalParameter& owned) {
        if (!owned.trainable || !group.flat_grad().defined()) return;
        const bool counted = owned.first_replica || fault::is_planted(fault::Fault::kNormReplicas);
        shards.push_back({group.view_in(group.flat_grad(), i), counted});
      });
  return shards;
}

at::Tensor squared_norm(const std::vector<GradientShard>& shards) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> counted;
  for (const auto& shard : shards) {
    if (shard.counted && shard.gradient.defined() && shard.gradient.numel() > 0) {
      counted.push_back(shard.gradient);
    }
  }
  if (counted.empty()) return at::zeros({1}, at::kDouble);
  if (!counted.front().is_cpu() && !counted.front().is_meta()) {
    // On a GPU, fused kernels compute the norms of all gradients. The result stays on the GPU, so
    // that global_norm() copies a single value to the host.
    return at::stack(at::_foreach_norm(counted, 2, at::kDouble)).square().sum().reshape({1});
  }
  at::Tensor sum;
  for (const at::Tensor& gradient : counted) {
    const at::Tensor norm =
        at::linalg_vector_norm(gradient, 2, at::OptionalIntArrayRef{}, false, at::kDouble);
    sum = sum.defined() ? sum + norm * norm : norm * norm;
  }
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
  return factor > 1.0 ? 1.0 : factor;  // a NaN factor is returned as it is
}

double clip_grad_norm(parallel::ShardedParameters& parameters, double max_norm) {
  const at::NoGradGuard no_grad;
  const std::vector<GradientShard> shards = gradient_shards(parameters);
  const double norm = global_norm(shards, parameters.mesh().group("world"));
  const double factor = clip_factor(norm, max_norm);
  if (factor == 1.0) return norm;
  for (const GradientShard& shard : shards) shard.gradient.mul_(factor);
  return norm;
}

}  // namespace am::optim
