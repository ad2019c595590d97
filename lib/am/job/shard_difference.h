// Finds the parameters that two layouts of one model shard differently. Parameters of several
// layers with equal differences are listed as one entry.
//
//   for (const auto& d : shard_differences(a, b)) {
//     d.pattern;   // "model.layers.*.mlp.up_proj.weight"
//   }
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/base/shape.h"
#include "am/layout/layout.h"

namespace am::job {

// How one layout shards a parameter.
struct Placed {
  Shape local;  // shape of the shard on the first rank that stores the parameter
  // Placements in the groups with several ranks, as ParameterLayout::placements() returns them, for
  // example "dp_shard_cp: Shard(0), tp: Shard(0)"; "whole" if no group has several ranks.
  std::string placed;
};

struct ShardDifference {
  std::string pattern;  // name of the parameters, with `*` for the indices of layers and experts
  int64_t times = 0;    // number of parameters with this name pattern and difference
  Shape shape;          // global shape of each parameter
  Placed a;
  Placed b;
};

// Returns whether both layouts list parameters with the same names and shapes, in the same order.
bool same_model(const layout::Layout& a, const layout::Layout& b);

// Returns the differences, in the order in which the layouts list the parameters. Requires
// same_model(a, b).
std::vector<ShardDifference> shard_differences(const layout::Layout& a, const layout::Layout& b);

}  // namespace am::job
