// DDP: every rank stores everything; gradients are summed over all data-parallel ranks, bucket by
// bucket while backward goes on.
#pragma once

#include "am/parallel/data_parallel.h"
#include "am/planner/layout.h"

namespace am::parallel {

// The layout's mesh has dp_shard = 1 (planner/layout.h), so the groups neither gather nor free.
DataParallelOptions ddp_options(const planner::Layout& layout, at::ScalarType storage_dtype);

}  // namespace am::parallel
