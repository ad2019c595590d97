// Which ranks hold the same boxes of a parameter: the planner and the runtime ask the same
// function.
#pragma once

#include <string_view>

#include "am/planner/layout.h"

namespace am::planner {

// The axis along which they lie, beside the tp ranks that OwnPart counts; empty: no other rank
// does.
struct ReplicaAxes {
  std::string_view dense;
  std::string_view experts;  // that expert parallelism places
};
// `ignored`: of parameters that are in no FSDP unit. Where nothing is cut, ranks of one sequence
// have copies too.
ReplicaAxes replica_axes(const Layout& layout, bool ignored);

}  // namespace am::planner
