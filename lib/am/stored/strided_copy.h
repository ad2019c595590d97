// Copies a box of a strided tensor in a mapped file. The data may have any alignment.
#pragma once

#include <cstddef>
#include <span>

#include "am/mesh/shard.h"

namespace am::stored {

// Memory to which the elements of a box are written. The first element is written to `data`.
// Elements that are neighbours along dim d are written `strides[d]` elements apart.
struct Destination {
  std::byte* data = nullptr;
  Shape strides;

  // Returns the destination of a smaller box inside this destination's box. `offset`: index of the
  // smaller box's first element in this destination's box; `element_size`: bytes per element.
  Destination part(const Shape& offset, int64_t element_size) const;
};

// Returns `out` as the destination of a box with `dims` more leading dims, each of size 1.
Destination with_dims_in_front(Destination out, size_t dims);

// Returns the strides, in elements, of a contiguous row-major tensor.
Shape dense_strides(const Shape& shape);

// Copies the elements of `box` from `data`, the tensor's values, to `out`, in the longest runs that
// are contiguous in `data` and in `out`. `data` begins with the tensor's first element. An element
// has `element_size` bytes; neighbours along dim d are `strides[d]` elements apart. The caller must
// have checked that the box lies inside the data.
void copy_box(std::span<const std::byte> data, const Shape& strides, const mesh::Box& box,
              int64_t element_size, const Destination& out);

}  // namespace am::stored
