// Checks that boxes (index ranges of shards) partition a tensor. Called for all shards of a
// checkpoint before any shard is read.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "am/mesh/shard.h"

namespace am::mesh {

// Returns why the boxes do not partition a tensor of this shape: a box has a wrong number of dims,
// lies outside the tensor or overlaps another box, some elements are in no box, or the shape itself
// is too large. Returns nothing if every element is in exactly one box. Empty boxes inside the
// tensor are ignored. Takes O(n log n) time for n boxes that cut the tensor along one dim, and
// O(n * boxes per row) for a grid of boxes.
std::optional<std::string> why_not_covered(std::span<const int64_t> shape,
                                           std::span<const Box* const> boxes);

}  // namespace am::mesh
