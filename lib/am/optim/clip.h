// Global gradient norm over sharded parameters, each element counted once, and clipping by that
// norm.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "am/runtime/group.h"

namespace am::optim {

// This rank's shard of a gradient. `counted` is true on one rank of every set of replicas, so that
// the norm counts each element once.
struct GradientShard {
  at::Tensor gradient;
  bool counted = true;
};

// Returns this rank's part of the squared norm: [1], float64, on the gradients' device. The sum
// over all ranks is the square of the 2-norm.
at::Tensor squared_norm(const std::vector<GradientShard>& shards);

// Returns the 2-norm over all shards of all ranks of `world`; collective. Sums of squares are
// float64, so that sharding affects only the last bits of the result.
double global_norm(const std::vector<GradientShard>& shards, const runtime::Group& world);

// Returns the factor for all gradients, as in torch.nn.utils.clip_grad_norm_: min(1, max_norm /
// (norm + 1e-6)); 1 for max_norm = 0 (no clipping). NaN for a NaN norm, so that a broken gradient
// shows immediately.
double clip_factor(double norm, double max_norm);

}  // namespace am::optim
