// Places of elements in a tensor: one row-major number, or an index a dim.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::mesh {

// The row-major number, in a tensor of this shape, of the element that is number `local` of a box.
int64_t flat_index(const Box& box, std::span<const int64_t> shape, int64_t local);
// flat_index undone for the whole tensor.
std::vector<int64_t> coordinates_of(int64_t index, std::span<const int64_t> shape);

}  // namespace am::mesh
