// Ranks that hold the same boxes of a parameter. Planner and runtime call the same function.
#pragma once

#include <string_view>

#include "am/layout/layout.h"

namespace am::layout {

// Axes along which the replicas are, in addition to the tp ranks counted in LocalShard. Empty: no
// other rank holds the boxes.
struct ReplicaAxes {
  std::string_view dense;
  std::string_view experts;  // experts under expert parallelism
};
// `ignored`: for parameters that are in no FSDP unit. If nothing is sharded over data parallelism,
// cp ranks hold replicas too.
ReplicaAxes replica_axes(const Layout& layout, bool ignored);

}  // namespace am::layout
