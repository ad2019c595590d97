// Whether boxes make up a tensor: stored shards are held against its shape before any is read.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "am/mesh/shard.h"

namespace am::mesh {

// Why the boxes are no partition of a tensor of this shape: one has other dims, leaves it, overlaps
// another, or elements are missing. Nothing: each element is in one box. Empty boxes are passed
// over. Takes n log n steps for boxes of one cut dim, n times a row of them for a grid.
std::optional<std::string> why_not_covered(std::span<const int64_t> shape,
                                           std::span<const Box* const> boxes);

}  // namespace am::mesh
