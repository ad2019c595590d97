// Checks that boxes partition a tensor. Used on stored shards before any of them is read.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "am/mesh/shard.h"

namespace am::mesh {

// Returns why the boxes do not partition a tensor of this shape: a box has another number of dims,
// lies outside the tensor or overlaps another box, or elements are missing. Returns nothing if
// every element is in exactly one box. Empty boxes are ignored. Costs O(n log n) for n boxes that
// are cut along one dim, and O(n * boxes per row) for a grid.
std::optional<std::string> why_not_covered(std::span<const int64_t> shape,
                                           std::span<const Box* const> boxes);

}  // namespace am::mesh
