// Finds the bytes of a tensor's rows in the dense values of a mapped file.
#pragma once

#include <cstddef>
#include <span>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::stored {

// Returns the part of `values` that contains the rows of `box`. `values`: bytes of a dense,
// row-major tensor with the shape `shape`. Returns `values` if the tensor has no dims.
std::span<const std::byte> bytes_of_rows(std::span<const std::byte> values, const Shape& shape,
                                         const mesh::Box& box);
// Returns the box `common` of a tensor with its offset relative to the box `own` of this tensor.
mesh::Box inside(const mesh::Box& own, mesh::Box common);
// Returns the part of `values` that contains the rows of the box `common`. `values`: bytes of the
// box `own`, dense and row-major. `own` and `common` are boxes of one tensor; `common` lies inside
// `own`.
std::span<const std::byte> own_rows(std::span<const std::byte> values, const mesh::Box& own,
                                    const mesh::Box& common);

}  // namespace am::stored
