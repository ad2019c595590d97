// Data-parallel strategies that a search tries, and the axes that each strategy supports.
#pragma once

#include <cstdint>
#include <vector>

#include "am/config/strategy_config.h"
#include "am/predict/search/search.h"

namespace am::predict {

// Returns the strategies that request.strategy selects. An entry with the strategy of request.base
// keeps the base plan's options, except that it checkpoints either all layers or none.
// megatron_fsdp has an entry for each of the ZeRO levels 1 to 3. For a model with experts, megatron
// has one entry with etp_size = tp_size and one with etp_size = 1, unless request.base sets
// etp_size. All entries are repeated for each of request.recipes that the strategy supports.
std::vector<config::DistributedConfig> searched_strategies(const SearchRequest& request);

bool is_fsdp2(const config::DistributedConfig& strategy);
// Whether the strategy supports pipelines and sequence parallelism.
bool has_every_axis(const config::DistributedConfig& strategy);
// Returns the number of ranks over which tensor parallelism shards each expert (mesh/layout.h) if
// the tensor-parallel size is `tp`; 1 for strategies that do not shard experts.
int64_t expert_tp(const config::DistributedConfig& strategy, int64_t tp);

}  // namespace am::predict
