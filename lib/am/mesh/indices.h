// Converts between row-major element numbers and multi-dimensional indices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::mesh {

// Returns the row-major index of an element in a tensor of `shape`. `local` is the element's
// row-major index in `box`, a part of the tensor.
int64_t flat_index(const Box& box, std::span<const int64_t> shape, int64_t local);
// Returns the multi-dimensional index of the element with this row-major index.
std::vector<int64_t> coordinates_of(int64_t index, std::span<const int64_t> shape);

}  // namespace am::mesh
