// The copy of a rank's part of a checkpoint that is written while training goes on
// (checkpoint.async): all through a job, in host memory.
#pragma once

#include <cstdint>

#include "am/config/plan.h"
#include "am/planner/layout.h"

namespace am::planner {

// Bytes of the rank's data file, short of the optimizer's values that rank 0's has besides: boxes
// of parameters and of the optimizer's state, of those that other ranks hold too this one's share,
// and the archives around them.
int64_t staging_bytes(const config::Plan& plan, const Layout& layout, int64_t rank);

}  // namespace am::planner
