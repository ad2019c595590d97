// DDP: every rank stores all parameters; gradients are summed over all data-parallel ranks, bucket
// by bucket during backward.
#pragma once

#include "am/layout/layout.h"
#include "am/parallel/data_parallel.h"
#include "am/parallel/strategy.h"

namespace am::parallel {

// Returns the options of DDP. Requires a mesh with dp_shard = 1 (layout/layout.h): groups then
// neither gather nor free parameters.
DataParallelOptions ddp_options(const config::Plan& plan, const layout::Layout& layout);

// The strategy "ddp".
Parallelized parallelize_ddp(const StrategyInput& input);

}  // namespace am::parallel
