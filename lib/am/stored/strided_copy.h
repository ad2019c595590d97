// Copies a box of a strided tensor in a mapped file with any alignment.
#pragma once

#include <cstddef>
#include <span>

#include "am/mesh/shard.h"

namespace am::stored {

// The memory to which a box is written. The box's first element goes to `data`, and neighbours
// along dim d are `strides[d]` elements apart.
struct Destination {
  std::byte* data = nullptr;
  Shape strides;

  // Returns the destination of the part of the box that begins at index `offset` of the box.
  Destination part(const Shape& offset, int64_t element_size) const;
};

// Returns the destination with `dims` leading dims of size 1 added.
Destination with_dims_in_front(Destination out, size_t dims);

// Returns the strides, in elements, of a contiguous row-major tensor.
Shape dense_strides(const Shape& shape);

// Copies the elements of `box` from `data` to `out`, in the longest runs that are contiguous in
// both `data` and `out`. `data` begins with the tensor's first element; elements have
// `element_size` bytes, and neighbours along dim d are `strides[d]` elements apart. The caller must
// have checked that the box lies inside the data.
void copy_box(std::span<const std::byte> data, const Shape& strides, const mesh::Box& box,
              int64_t element_size, const Destination& out);

}  // namespace am::stored
