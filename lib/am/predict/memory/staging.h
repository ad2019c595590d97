// Host-memory copy of a rank's part of a checkpoint, which is written while training continues
// (checkpoint.async). It exists for the whole job.
#pragma once

#include <cstdint>

#include "am/config/plan.h"
#include "am/layout/layout.h"

namespace am::predict {

// Bytes of the rank's data file: boxes of parameters and optimizer state, with replicated boxes
// divided among their holders, and the archive format's overhead. Excludes the optimizer's global
// values in rank 0's file.
int64_t staging_bytes(const config::Plan& plan, const layout::Layout& layout, int64_t rank);

}  // namespace am::predict
