// Megatron-FSDP: data parallelism that shards by the level of zero_dp_strategy.
//
//   level  optimizer  gradients  parameters   name                 gradients are reduced
//   0      whole      whole      whole        no_shard             after the last micro-batch
//   1      sharded    whole      whole        optim                after the last micro-batch
//   2      sharded    sharded    whole        optim_grads          by each micro-batch
//   3      sharded    sharded    sharded      optim_grads_params   by each micro-batch
//
// At level 3 a unit is freed after forward and gathered again for backward.
//
// A unit is one flat buffer that one collective gathers or reduces, as in
// param_group/param_group.h. A rank stores the part of the parameters that its optimizer updates.
// At levels 1 and 2 the full parameters are gathered for forward and freed after backward, so that
// no rank holds full parameters between steps.
#pragma once

#include "am/config/strategy_config.h"
#include "am/layout/layout.h"
#include "am/layout/precision.h"
#include "am/parallel/data_parallel.h"
#include "am/parallel/strategy.h"

namespace am::parallel {

// overlap_param_gather: the next unit is gathered while one computes; always at level 3.
// overlap_grad_reduce: units are reduced during backward; always at levels 2 and 3.
DataParallelOptions megatron_fsdp_options(const config::MegatronFSDPConfig& config,
                                          const layout::Layout& layout,
                                          const layout::StepPrecision& precision);

// The strategy "megatron_fsdp". The plan's strategy must be a MegatronFSDPConfig.
Parallelized parallelize_megatron_fsdp(const StrategyInput& input);

}  // namespace am::parallel
