// The messages of one optimizer step of a data-parallel strategy, by formula: what a plan's units,
// shards and switches say, without running anything.
//
// Per micro-batch, with parameters cut over S ranks:
//   all_gather      each unit once on the way forward (a tied embedding twice, where it was freed
//                   in between), each that was freed once more on the way back, but for the
//                   embedding's look-up, which needs no parameters there. S pieces of each
//                   parameter with their padding, in the compute dtype.
// ddp and disable_bucketing have buckets in place of units.
// Per reduction (every micro-batch, or the last one alone), with R replicas:
//   reduce_scatter  each unit once: the same pieces in the reduce dtype; S > 1
//   all_reduce      each unit's piece over the replicas; R > 1. What FSDP ignores, whole, over all
//                   data-parallel ranks.
// Experts that expert parallelism places go over ep_shard, apart from the rest of their unit, and
// each layer of experts sends tokens over ep: how many, their rows with their weights, and what
// becomes of them back; in backward the gradients of both; where it computes again, rows and
// weights. Frozen parameters are gathered and not reduced; units before the first one that trains
// have no way back. Per step one message of all ranks (train/step.h): 4 doubles, and one a rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/planner/layout.h"

namespace am::test {

using Traffic = std::map<std::string, std::pair<int64_t, int64_t>>;  // "op group": bytes, count

// Without tensor parallelism. `rank`: any that pieces are stored on.
Traffic step_traffic(const config::Plan& plan, const model::ModelConfig& config,
                     const planner::Layout& layout, int64_t rank);

}  // namespace am::test
