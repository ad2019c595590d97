#include "am/checkpoint/strided_copy.h"

#include <cstring>

namespace am::checkpoint {

void copy_box(std::span<const std::byte> data, const Shape& strides, const mesh::Box& box,
              int64_t element_size, std::byte* out) {
  if (box.numel() == 0) return;
  // The innermost dims, as far as they follow each other in both.
  size_t outer = box.shape.size();
  int64_t run = 1;
  while (outer > 0 && (box.shape[outer - 1] == 1 || strides[outer - 1] == run)) {
    run *= box.shape[--outer];
  }
  int64_t first = 0;
  for (size_t dim = 0; dim < box.shape.size(); ++dim) first += box.offset[dim] * strides[dim];
  const std::byte* from = data.data() + first * element_size;
  const auto bytes = static_cast<size_t>(run * element_size);
  Shape index(outer, 0);
  while (true) {
    std::memcpy(out, from, bytes);
    out += bytes;
    size_t dim = outer;
    while (dim > 0) {
      --dim;
      from += strides[dim] * element_size;
      if (++index[dim] < box.shape[dim]) break;
      from -= strides[dim] * element_size * box.shape[dim];
      index[dim] = 0;
      if (dim == 0) return;
    }
    if (outer == 0) return;
  }
}

}  // namespace am::checkpoint
