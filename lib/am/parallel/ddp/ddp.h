// DDP: every rank stores everything; gradients are summed over all data-parallel ranks, bucket by
// bucket while backward goes on.
#pragma once

#include "am/parallel/data_parallel.h"
#include "am/parallel/strategy.h"
#include "am/planner/layout.h"

namespace am::parallel {

// The layout's mesh has dp_shard = 1 (planner/layout.h), so the groups neither gather nor free.
DataParallelOptions ddp_options(const config::Plan& plan, const planner::Layout& layout);

// The strategy "ddp".
Parallelized parallelize_ddp(const StrategyInput& input);

}  // namespace am::parallel
