// Computes the global norm of sharded gradients, with each element counted once, and clips the
// gradients by this norm.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "am/parallel/sharded_parameters.h"
#include "am/runtime/group.h"

namespace am::optim {

// This rank's shard of a gradient. `counted` is true on exactly one of the ranks that hold replicas
// of the shard, so that the norm counts each element once.
struct GradientShard {
  at::Tensor gradient;
  bool counted = true;
};

// Returns the gradient shards of the trainable parameters that this rank stores.
std::vector<GradientShard> gradient_shards(parallel::ShardedParameters& parameters);

// Returns this rank's contribution to the squared norm: [1], float64, on the gradients' device (on
// the host if no shard is counted). The sum over all ranks is the square of the 2-norm.
at::Tensor squared_norm(const std::vector<GradientShard>& shards);

// Returns the 2-norm of the gradients, over the shards of all ranks of `world`. Squares are summed
// in float64, so that sharding affects only the last bits of the result. Collective.
double global_norm(const std::vector<GradientShard>& shards, const runtime::Group& world);

// Returns the factor by which all gradients are multiplied, as in torch.nn.utils.clip_grad_norm_:
// min(1, max_norm / (norm + 1e-6)), or 1 for max_norm <= 0 (no clipping). For a NaN norm the factor
// is NaN: all gradients become NaN, so that the error is noticed.
double clip_factor(double norm, double max_norm);

// Multiplies all gradients by clip_factor(), and returns their norm before clipping. Collective
// over all ranks of the mesh.
double clip_grad_norm(parallel::ShardedParameters& parameters, double max_norm);

}  // namespace am::optim
