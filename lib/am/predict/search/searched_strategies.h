// Strategies of data parallelism that a search tries, and the axes that each of them has.
#pragma once

#include <cstdint>
#include <vector>

#include "am/config/strategy_config.h"
#include "am/predict/search/search.h"

namespace am::predict {

// Returns the strategies to try: those of request.strategy, with the options of request.base where
// it has the same one. A strategy with several levels of sharding has an entry for each level, and
// megatron one for each tensor parallelism of experts.
std::vector<config::DistributedConfig> searched_strategies(const SearchRequest& request);

bool is_fsdp2(const config::DistributedConfig& strategy);
// Whether the strategy has pipelines and sequence parallelism.
bool has_every_axis(const config::DistributedConfig& strategy);
// Returns the tensor-parallel ranks of each expert in the expert groups (mesh/layout.h) if the
// tensor-parallel size is `tp`; 1 for strategies that do not cut experts.
int64_t expert_tp(const config::DistributedConfig& strategy, int64_t tp);

}  // namespace am::predict
