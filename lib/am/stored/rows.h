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
// Returns the box `common`, given in the tensor's coordinates, in the coordinates of the part `own`
// of the tensor.
mesh::Box inside(const mesh::Box& own, mesh::Box common);
// Returns the bytes of the rows that the box `common` of a tensor covers in `values`, the dense
// values of the tensor's part `own`.
std::span<const std::byte> own_rows(std::span<const std::byte> values, const mesh::Box& own,
                                    const mesh::Box& common);

}  // namespace am::stored
