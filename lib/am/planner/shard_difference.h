// Which parameters lie differently under two layouts of one model, those of all layers together.
//
//   for (const auto& d : shard_differences(a, b)) d.pattern;   //
//   "model.layers.*.mlp.up_proj.weight"
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/base/shape.h"
#include "am/planner/layout.h"

namespace am::planner {

// One side: the piece of the first rank that holds the parameter, and how it is cut.
struct Placed {
  Shape local;
  std::string placed;  // "tp: Shard(0), dp_shard_cp: Shard(0)"; "whole"
};

struct ShardDifference {
  std::string pattern;  // a name; layers and experts as `*`
  int64_t times = 0;    // parameters that it stands for
  Shape shape;          // global
  Placed a;
  Placed b;
};

// Whether both have the same parameters with the same shapes.
bool same_model(const Layout& a, const Layout& b);

// The models must be the same.
std::vector<ShardDifference> shard_differences(const Layout& a, const Layout& b);

}  // namespace am::planner
