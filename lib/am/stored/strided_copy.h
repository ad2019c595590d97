// A box of a strided tensor that lies in a mapped file, of whatever alignment.
#pragma once

#include <cstddef>
#include <span>

#include "am/mesh/shard.h"

namespace am::stored {

// Where elements of a box go: the first to `data`, along its dims `strides` elements apart.
struct Destination {
  std::byte* data = nullptr;
  Shape strides;

  // The same for a part of the box that begins `offset` elements behind its first along each dim.
  Destination part(const Shape& offset, int64_t element_size) const;
};

// The same with so many dims of size 1 in front.
Destination with_dims_in_front(Destination out, size_t dims);

// Of a row-major tensor.
Shape dense_strides(const Shape& shape);

// `data` are elements of `element_size` bytes, the first that of index 0, `strides` apart. Copies
// those of `box` to `out`, in runs as long as they lie together in both. The box lies inside the
// data, which the caller has checked.
void copy_box(std::span<const std::byte> data, const Shape& strides, const mesh::Box& box,
              int64_t element_size, const Destination& out);

}  // namespace am::stored
