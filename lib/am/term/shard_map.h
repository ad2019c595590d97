// Draws which ranks hold which shard of a parameter.
//
//   rows 0-511     rank 0, 4
//   rows 512-1023  rank 1, 5
//
// A matrix that is cut in both dims is drawn as a box whose cells are ranks, if its shards form a
// grid of at most 8 columns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "am/base/shape.h"
#include "am/term/style.h"

namespace am::term {

// A rank's shard of a parameter; empty if a size in `shape` is 0.
struct RankBox {
  int64_t rank = 0;
  Shape offset;
  Shape shape;
};

// Returns one line per distinct shard, with all ranks that hold the shard, or the box for a matrix
// that is cut in both dims. `global`: shape of the parameter. If ranks have empty shards, the last
// line lists these ranks. Throws Error(kInternal) if an offset or a shape in `shards` does not have
// the number of dims of `global`.
std::string shard_map(std::span<const int64_t> global, std::span<const RankBox> shards,
                      const Style& style);

}  // namespace am::term
