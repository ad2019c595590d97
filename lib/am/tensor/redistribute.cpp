#include "am/tensor/redistribute.h"

#include <ATen/ATen.h>

#include "am/base/error.h"

namespace am::tensor {

namespace {

// Returns a contiguous tensor with `dim` moved to the front and padded with zeros to `length`.
at::Tensor padded_front(const at::Tensor& tensor, int64_t dim, int64_t length) {
  at::Tensor front = tensor.movedim(dim, 0);
  if (front.size(0) == length) return front.contiguous();
  std::vector<int64_t> shape = front.sizes().vec();
  shape[0] = length;
  at::Tensor padded = at::zeros(shape, front.options());
  padded.narrow(0, 0, front.size(0)).copy_(front);
  return padded;
}

}  // namespace

at::Tensor all_gather_dim(const at::Tensor& local, int64_t dim, int64_t size,
                          const runtime::Group& group) {
  if (group.size() == 1) return local;
  const at::NoGradGuard no_grad;
  if (dim < 0) dim += local.dim();
  const int64_t length = mesh::chunk_length(size, group.size());
  const at::Tensor mine = padded_front(local, dim, length);
  std::vector<int64_t> shape = mine.sizes().vec();
  shape[0] = length * group.size();
  at::Tensor gathered = at::empty(shape, mine.options());
  group.all_gather(gathered, mine);
  return gathered.narrow(0, 0, size).movedim(0, dim).contiguous();
}

at::Tensor reduce_scatter_dim(const at::Tensor& partial, int64_t dim, const runtime::Group& group) {
  if (group.size() == 1) return partial;
  const at::NoGradGuard no_grad;
  if (dim < 0) dim += partial.dim();
  const int64_t size = partial.size(dim);
  const int64_t length = mesh::chunk_length(size, group.size());
  const at::Tensor parts = padded_front(partial, dim, length * group.size());
  std::vector<int64_t> shape = parts.sizes().vec();
  shape[0] = length;
  at::Tensor mine = at::empty(shape, parts.options());
  group.reduce_scatter(mine, parts);
  const mesh::Extent piece = mesh::chunk(size, group.size(), group.index());
  return mine.narrow(0, 0, piece.size).movedim(0, dim).contiguous();
}

at::Tensor local_chunk(const at::Tensor& full, int64_t dim, const runtime::Group& group) {
  if (dim < 0) dim += full.dim();
  const mesh::Extent piece = mesh::chunk(full.size(dim), group.size(), group.index());
  return full.narrow(dim, piece.offset, piece.size);
}

at::Tensor view_box(const at::Tensor& tensor, const Shape& origin, const mesh::Box& box) {
  at::Tensor view = tensor;
  for (size_t dim = 0; dim < box.shape.size(); ++dim) {
    const int64_t start = box.offset[dim] - origin[dim];
    AM_ASSERT(start >= 0 && start + box.shape[dim] <= view.size(static_cast<int64_t>(dim)),
              "box outside of the tensor");
    view = view.narrow(static_cast<int64_t>(dim), start, box.shape[dim]);
  }
  return view;
}

}  // namespace am::tensor
