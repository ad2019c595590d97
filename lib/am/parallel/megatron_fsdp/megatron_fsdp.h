// Megatron-FSDP: data parallelism that shards by level, as zero_dp_strategy says.
//
//   level  optimizer  gradients  parameters   name                 gradients are reduced
//   0      whole      whole      whole        no_shard             after the last micro-batch
//   1      sharded    whole      whole        optim                after the last micro-batch
//   2      sharded    sharded    whole        optim_grads          by each micro-batch
//   3      sharded    sharded    sharded      optim_grads_params   by each micro-batch
//
// At level 3 a unit is freed after forward and gathered again for backward.
//
// A unit is one flat buffer that travels in one collective, as in param_group/param_group.h. What a
// rank stores is the part that its optimizer updates; at levels 1 and 2 the whole parameters are
// gathered from it for forward and freed after backward, so that between steps no rank holds them.
#pragma once

#include "am/config/strategy_config.h"
#include "am/parallel/data_parallel.h"
#include "am/parallel/strategy.h"
#include "am/planner/layout.h"
#include "am/planner/precision.h"

namespace am::parallel {

// overlap_param_gather: the next unit is gathered while one computes; at level 3 always.
// overlap_grad_reduce: units are reduced while backward goes on; at levels 2 and 3 always.
DataParallelOptions megatron_fsdp_options(const config::MegatronFSDPConfig& config,
                                          const planner::Layout& layout,
                                          const planner::StepPrecision& precision);

// The strategy "megatron_fsdp". The plan's strategy must be a MegatronFSDPConfig.
Parallelized parallelize_megatron_fsdp(const StrategyInput& input);

}  // namespace am::parallel
