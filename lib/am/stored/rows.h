// Rows of dense values in a mapped file: the bytes that a box of a tensor covers.
#pragma once

#include <cstddef>
#include <span>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::stored {

// Returns the bytes of the rows (of the first dim) that `box` covers in a dense tensor.
std::span<const std::byte> bytes_of_rows(std::span<const std::byte> values, const Shape& shape,
                                         const mesh::Box& box);
// Returns the box `common` relative to the part `own` of the tensor.
mesh::Box inside(const mesh::Box& own, mesh::Box common);
// Returns the bytes of the rows that the box `common` covers in `values`, the part `own` of a
// tensor.
std::span<const std::byte> own_rows(std::span<const std::byte> values, const mesh::Box& own,
                                    const mesh::Box& common);

}  // namespace am::stored
