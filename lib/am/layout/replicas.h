// Groups of ranks (mesh/layout.h) that hold replicas of a parameter.
#pragma once

#include <string_view>

#include "am/layout/layout.h"

namespace am::layout {

// Whether the stored parameters, which the optimizer updates, are sharded over data-parallel ranks.
// megatron_fsdp and megatron shard them at every ZeRO level except 0.
bool shards_parameters(const config::DistributedConfig& strategy);

// Names of the groups whose ranks hold the same boxes of a parameter. The tp ranks that hold the
// same boxes are not included; LocalShard::copies counts them. Empty: no other rank holds the
// boxes.
struct ReplicaAxes {
  std::string_view dense;
  std::string_view experts;  // experts under expert parallelism
};
// Returns the groups for the parameters that FSDP ignores (`ignored`) or for all other parameters.
// cp ranks hold replicas of parameters that FSDP ignores, and of all parameters if nothing is
// sharded over data parallelism.
ReplicaAxes replica_axes(const Layout& layout, bool ignored);

}  // namespace am::layout
