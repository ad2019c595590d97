// Converts between row-major element numbers and multi-dimensional indices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::mesh {

// Returns the row-major number of an element in a tensor of `shape`. `box` is a part of the tensor,
// and `local` is the row-major number of the element in `box`.
int64_t flat_index(const Box& box, std::span<const int64_t> shape, int64_t local);
// Returns the multi-dimensional index of the element with row-major number `index` in a tensor of
// `shape`.
std::vector<int64_t> coordinates_of(int64_t index, std::span<const int64_t> shape);

}  // namespace am::mesh
