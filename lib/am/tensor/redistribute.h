// Changing how a tensor lies over a group: DTensor's redistributions, without autograd.
//
// FlatLayout are torch.chunk's (mesh/shard.h): trailing ones may be shorter or empty. Legend: R
// replicated, S(d) cut on dim d, P partial sums.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/base/shape.h"
#include "am/mesh/shard.h"
#include "am/runtime/group.h"

namespace am::tensor {

// S(dim) -> R. `size` is the global length of `dim`.
at::Tensor all_gather_dim(const at::Tensor& local, int64_t dim, int64_t size,
                          const runtime::Group& group);
// P -> S(dim): every rank gets the sum of its own piece.
at::Tensor reduce_scatter_dim(const at::Tensor& partial, int64_t dim, const runtime::Group& group);
// R -> S(dim): a view of this rank's piece; no communication.
at::Tensor local_chunk(const at::Tensor& full, int64_t dim, const runtime::Group& group);

// A view of `tensor` (whose index space starts at `origin`) restricted to `box`, which must lie
// inside it.
at::Tensor view_box(const at::Tensor& tensor, const Shape& origin, const mesh::Box& box);

}  // namespace am::tensor
