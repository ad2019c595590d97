// Conversion between row-major element numbers and multi-dimensional indices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::mesh {

// Returns the row-major number, in a tensor of this shape, of element `local` of the box (itself
// counted row-major within the box).
int64_t flat_index(const Box& box, std::span<const int64_t> shape, int64_t local);
// Returns the multi-dimensional index of the element with this row-major number.
std::vector<int64_t> coordinates_of(int64_t index, std::span<const int64_t> shape);

}  // namespace am::mesh
