// Computes the messages of one optimizer step of a data-parallel strategy by formulas, from the
// units, shards and options of the plan, without running a step.
//
// Per micro-batch, with parameters sharded over S ranks:
//   all_gather      each unit once in forward, and once more in backward if its parameters were
//                   freed. A tied embedding that was freed is gathered twice in forward; the
//                   embedding's look-up needs no gather in backward. A message has S shards of each
//                   parameter, with their padding, in the compute dtype.
// Per reduction (after every micro-batch, or only after the last one), with R replicas:
//   reduce_scatter  each unit once, if S > 1: S shards of each gradient in the reduce dtype
//   all_reduce      each unit's shard over the replicas, if R > 1. Gradients of parameters that
//                   FSDP ignores are all-reduced over all data-parallel ranks.
// ddp and disable_bucketing use buckets instead of units. Experts under expert parallelism are
// gathered and reduced over ep_shard, separately from the rest of their unit. Each MoE layer
// exchanges tokens over ep. Forward sends token counts, rows, their weights, and the outputs back;
// backward sends the gradients of the last three; recomputation sends rows and weights again.
// Frozen parameters are gathered but not reduced. Units before the first trainable one have no
// backward. With pipeline parallelism, the schedule determines the all-gathers, and ranks also
// exchange hidden states and their gradients. Each step adds one message over all ranks
// (train/step.h): 6 doubles, one double per rank, the token counts of experts, and the balance loss
// if the plan balances experts by sequence.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"

namespace am::test {

// (bytes, number of messages) of each "OPERATION GROUP", for example "all_gather dp_shard_cp".
using Traffic = std::map<std::string, std::pair<int64_t, int64_t>>;

// Returns the messages of one step of `rank`. Messages of tensor and context parallelism are not
// included.
Traffic step_traffic(const config::Plan& plan, const model::ModelConfig& config,
                     const layout::Layout& layout, int64_t rank);

}  // namespace am::test
