// The global gradient norm over sharded parameters, each counted once, and clipping by it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "am/runtime/group.h"

namespace am::optim {

// This rank's part of the gradient. Replicas of a shard are counted by one rank only.
struct GradientShard {
  at::Tensor gradient;
  bool counted = true;
};

// This rank's part of the norm's square: [1], float64, on the gradients' device. Sums over all
// ranks to the square of the 2-norm.
at::Tensor squared_norm(const std::vector<GradientShard>& shards);

// 2-norm over all shards of all ranks of `world`; collective. Sums of squares run in float64, so
// the result does not depend on how the tensors are cut beyond the last bits.
double global_norm(const std::vector<GradientShard>& shards, const runtime::Group& world);

// What every gradient is multiplied with, as torch.nn.utils.clip_grad_norm_: min(1, max_norm /
// (norm + 1e-6)); 1 for max_norm = 0. NaN for a NaN norm: a broken gradient shows at once.
double clip_factor(double norm, double max_norm);

}  // namespace am::optim
