// Finds the bytes of a tensor's rows in the dense values of a mapped file.
#pragma once

#include <cstddef>
#include <span>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::stored {

// Returns the bytes of the rows (of the first dim) that `box` covers in a dense tensor.
std::span<const std::byte> bytes_of_rows(std::span<const std::byte> values, const Shape& shape,
                                         const mesh::Box& box);
// Converts the box `common` from coordinates of a tensor to coordinates of the box `own` of the
// tensor.
mesh::Box inside(const mesh::Box& own, mesh::Box common);
// Returns the bytes in `values`, the dense values of the box `own` of a tensor, that contain the
// rows of the box `common`.
std::span<const std::byte> own_rows(std::span<const std::byte> values, const mesh::Box& own,
                                    const mesh::Box& common);

}  // namespace am::stored
