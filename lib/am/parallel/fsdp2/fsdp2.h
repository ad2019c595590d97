// FSDP2 and HSDP: parameters are sharded over dp_shard_cp, gathered unit by unit, and replicated
// over dp_replicate.
#pragma once

#include "am/config/strategy_config.h"
#include "am/layout/layout.h"
#include "am/parallel/data_parallel.h"
#include "am/parallel/strategy.h"

namespace am::parallel {

// Returns the options of FSDP2. By default, units free their parameters after forward by PyTorch's
// rule: all but the last layer, the head and the root, which backward needs first. An explicit
// reshard_after_forward holds for every unit but the root.
DataParallelOptions fsdp2_options(const config::FSDP2Config& config, const layout::Layout& layout,
                                  at::ScalarType storage_dtype);

// The strategy "fsdp2". The plan's strategy must be an FSDP2Config.
Parallelized parallelize_fsdp2(const StrategyInput& input);

}  // namespace am::parallel
