// Rows of dense values that lie in a mapped file: which bytes a box of a tensor touches.
#pragma once

#include <cstddef>
#include <span>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::stored {

// Of a dense tensor's values those of the rows (of its first dim) that a box has.
std::span<const std::byte> bytes_of_rows(std::span<const std::byte> values, const Shape& shape,
                                         const mesh::Box& box);
// Where `common` lies in a part of the tensor.
mesh::Box inside(const mesh::Box& own, mesh::Box common);
// bytes_of_rows of a part that lies at `own` in a tensor of which `common` is wanted.
std::span<const std::byte> own_rows(std::span<const std::byte> values, const mesh::Box& own,
                                    const mesh::Box& common);

}  // namespace am::stored
