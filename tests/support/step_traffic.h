// Messages of one optimizer step of a data-parallel strategy, by formula from the plan's units,
// shards and switches, without running a step.
//
// Per micro-batch, with parameters sharded over S ranks:
//   all_gather      each unit once in forward (a tied embedding twice, if it was freed in between),
//                   and once more in backward if it was freed, except for the embedding's look-up,
//                   which needs no parameters there. S pieces of each parameter with their
//                   padding, in the compute dtype.
// ddp and disable_bucketing use buckets instead of units. Per reduction (every micro-batch, or only
// the last one), with R replicas:
//   reduce_scatter  each unit once: the same pieces in the reduce dtype; S > 1
//   all_reduce      each unit's piece over the replicas; R > 1. Parameters that FSDP ignores,
//                   over all data-parallel ranks.
// Experts under expert parallelism use ep_shard, separately from the rest of their unit, and each
// MoE layer exchanges tokens over ep: counts, rows with their weights, and the outputs back; in
// backward the gradients of both, and with recomputation rows and weights again. Frozen parameters
// are gathered but not reduced; units before the first trainable one have no backward. Each step
// adds one message over all ranks (train/step.h): 5 doubles, one per rank, and the token counts of
// experts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"

namespace am::test {

using Traffic = std::map<std::string, std::pair<int64_t, int64_t>>;  // "op group": bytes, messages

// Requires a plan without tensor parallelism. `rank`: any rank that stores pieces.
Traffic step_traffic(const config::Plan& plan, const model::ModelConfig& config,
                     const layout::Layout& layout, int64_t rank);

}  // namespace am::test
