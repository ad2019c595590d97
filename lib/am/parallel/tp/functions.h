// Differentiable redistributions over a tensor-parallel group, like Megatron-LM's f and g.
//
// Gradients follow this convention: the gradient of a replicated tensor is summed over the ranks
// and equal on all ranks; the gradient of a partial sum is replicated.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/runtime/group.h"

namespace am::parallel::tp {

// forward: identity; backward: sum over the group. For the replicated input of column-wise layers.
at::Tensor copy_to_group(const at::Tensor& x, const runtime::Group& group);
// forward: sum over the group; backward: identity. For the partial output of row-wise layers.
at::Tensor sum_over_group(const at::Tensor& x, const runtime::Group& group);
// forward: gather the pieces of `dim`, whose global length is `size`; backward: keep this rank's
// piece.
at::Tensor gather_pieces(const at::Tensor& x, int64_t dim, int64_t size,
                         const runtime::Group& group);
// forward: keep this rank's piece of `dim`; backward: gather the pieces.
at::Tensor take_piece(const at::Tensor& x, int64_t dim, const runtime::Group& group);
// forward: gather the pieces of `dim`; backward: sum, and keep this rank's piece. For sequence
// shards that enter column-wise layers.
at::Tensor gather_sequence(const at::Tensor& x, int64_t dim, const runtime::Group& group);
// forward: sum, and keep this rank's piece of `dim`; backward: gather the pieces. For partial
// outputs that become sequence shards.
at::Tensor scatter_sum(const at::Tensor& x, int64_t dim, const runtime::Group& group);

}  // namespace am::parallel::tp
