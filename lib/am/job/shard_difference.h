// Parameters that two layouts of one model shard differently, with equal layers combined.
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

// The shard in one layout: its shape on the first rank that holds the parameter, and its placement.
struct Placed {
  Shape local;
  std::string placed;  // "tp: Shard(0), dp_shard_cp: Shard(0)"; "whole"
};

struct ShardDifference {
  std::string pattern;  // name with layer and expert indices as `*`
  int64_t times = 0;    // number of parameters that match it
  Shape shape;          // global shape
  Placed a;
  Placed b;
};

// Whether both layouts have the same parameters with the same shapes.
bool same_model(const layout::Layout& a, const layout::Layout& b);

// Requires same_model(a, b).
std::vector<ShardDifference> shard_differences(const layout::Layout& a, const layout::Layout& b);

}  // namespace am::job
