// Differentiable redistributions over a tensor-parallel group, as Megatron-LM's f and g.
//
// In backward, the gradient of a replicated tensor is its complete sum, equal on all ranks, and the
// gradient of a partial sum is replicated.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/runtime/group.h"

namespace am::parallel::tp {

// forward: identity; backward: sum over the group. For a replicated input of column-wise layers.
at::Tensor copy_to_group(const at::Tensor& x, const runtime::Group& group);
// forward: sum over the group; backward: identity. For the partial output of row-wise layers.
at::Tensor sum_over_group(const at::Tensor& x, const runtime::Group& group);
// forward: gather pieces of `dim`, whose global length is `size`; backward: own piece.
at::Tensor gather_pieces(const at::Tensor& x, int64_t dim, int64_t size,
                         const runtime::Group& group);
// forward: own piece of `dim`; backward: gather.
at::Tensor take_piece(const at::Tensor& x, int64_t dim, const runtime::Group& group);
// forward: gather pieces of `dim`; backward: sum and keep the own piece. For sequence shards
// entering column-wise layers.
at::Tensor gather_sequence(const at::Tensor& x, int64_t dim, const runtime::Group& group);
// forward: sum and keep the own piece of `dim`; backward: gather. For partial outputs becoming
// sequence shards.
at::Tensor scatter_sum(const at::Tensor& x, int64_t dim, const runtime::Group& group);

}  // namespace am::parallel::tp
