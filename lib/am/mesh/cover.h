// Checks that boxes (index ranges of shards) cover a tensor without overlaps. Readers of
// checkpoints call why_not_covered() for a tensor's shards before they read the tensor.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "am/mesh/shard.h"

namespace am::mesh {

// Returns the reason why the boxes do not partition a tensor of this shape: a box has a wrong
// number of dims, lies outside the tensor or overlaps another box, some elements are in no box, or
// the shape is invalid (a negative size, or 2^63 or more elements). Returns nothing if every
// element is in exactly one box. Ignores empty boxes inside the tensor. Takes O(n log n) time for n
// boxes that cut the tensor along one dim. In a grid of boxes, each box is also compared with all
// boxes at the same offset along one dim.
std::optional<std::string> why_not_covered(std::span<const int64_t> shape,
                                           std::span<const Box* const> boxes);

}  // namespace am::mesh
