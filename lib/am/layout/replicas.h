// Mesh axes along which ranks hold replicas of a parameter.
#pragma once

#include <string_view>

#include "am/layout/layout.h"

namespace am::layout {

// Whether the stored parameters, which the optimizer updates, are sharded. megatron_fsdp and
// megatron shard them at every level except 0.
bool shards_parameters(const config::DistributedConfig& strategy);

// Axes along which ranks hold the same boxes of a parameter, in addition to the tp ranks that
// LocalShard counts. An empty name means that no other rank holds the boxes.
struct ReplicaAxes {
  std::string_view dense;
  std::string_view experts;  // experts under expert parallelism
};
// Returns the axes for the parameters that FSDP ignores (`ignored`) or for all other parameters. If
// the strategy shards nothing over data parallelism, cp ranks hold replicas too.
ReplicaAxes replica_axes(const Layout& layout, bool ignored);

}  // namespace am::layout
