// DTensor's redistributions of a tensor over a group, without autograd.
//
// Shards are cut as by torch.chunk (mesh/shard.h): the last ones may be shorter or empty. Legend: R
// replicated, S(d) sharded on dim d, P partial sums.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/base/shape.h"
#include "am/mesh/shard.h"
#include "am/runtime/group.h"

namespace am::tensor {

// All-gathers the shards along `dim` (S(dim) -> R). Returns the full tensor, in which `dim` has
// length `size`.
at::Tensor all_gather_dim(const at::Tensor& local, int64_t dim, int64_t size,
                          const runtime::Group& group);
// Reduce-scatters along `dim` (P -> S(dim)). Returns this rank's shard of the sum over the ranks.
at::Tensor reduce_scatter_dim(const at::Tensor& partial, int64_t dim, const runtime::Group& group);
// Returns a view of this rank's shard (R -> S(dim)), without communication.
at::Tensor local_chunk(const at::Tensor& full, int64_t dim, const runtime::Group& group);

// Returns a view of the elements of `tensor` that lie in `box`, which is given in global indices.
// `origin` is the global index of the tensor's first element. `box` must be inside the tensor.
at::Tensor view_box(const at::Tensor& tensor, const Shape& origin, const mesh::Box& box);

}  // namespace am::tensor
