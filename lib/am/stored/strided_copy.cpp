#include "am/stored/strided_copy.h"

#include <cstring>

namespace am::stored {

Destination Destination::part(const Shape& offset, int64_t element_size) const {
  Destination inner = *this;
  for (size_t dim = 0; dim < offset.size(); ++dim) {
    inner.data += offset[dim] * strides[dim] * element_size;
  }
  return inner;
}

Destination with_dims_in_front(Destination out, size_t dims) {
  out.strides.insert(out.strides.begin(), dims, 0);
  return out;
}

Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

void copy_box(std::span<const std::byte> data, const Shape& strides, const mesh::Box& box,
              int64_t element_size, const Destination& out) {
  if (box.numel() == 0) return;
  // Finds the longest run of elements that is contiguous in both `data` and `out`: merges the
  // innermost dims as far as possible.
  size_t outer = box.shape.size();
  int64_t run = 1;
  const auto goes_on = [&](size_t dim) {
    return box.shape[dim] == 1 || (strides[dim] == run && out.strides[dim] == run);
  };
  while (outer > 0 && goes_on(outer - 1)) run *= box.shape[--outer];
  int64_t first = 0;
  for (size_t dim = 0; dim < box.shape.size(); ++dim) first += box.offset[dim] * strides[dim];
  const std::byte* from = data.data() + first * element_size;
  std::byte* to = out.data;
  const auto bytes = static_cast<size_t>(run * element_size);
  Shape index(outer, 0);
  while (true) {
    std::memcpy(to, from, bytes);
    size_t dim = outer;
    while (dim > 0) {
      --dim;
      from += strides[dim] * element_size;
      to += out.strides[dim] * element_size;
      if (++index[dim] < box.shape[dim]) break;
      from -= strides[dim] * element_size * box.shape[dim];
      to -= out.strides[dim] * element_size * box.shape[dim];
      index[dim] = 0;
      if (dim == 0) return;
    }
    if (outer == 0) return;
  }
}

}  // namespace am::stored
