#include "am/layout/replicas.h"

#include <algorithm>
#include <variant>

namespace am::layout {

bool shards_parameters(const config::DistributedConfig& strategy) {
  if (std::holds_alternative<config::FSDP2Config>(strategy)) return true;
  if (const auto* own = std::get_if<config::MegatronConfig>(&strategy)) return own->zero >= 1;
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&strategy);
  return megatron != nullptr && megatron->zero_dp_strategy >= 1;
}

ReplicaAxes replica_axes(const Layout& layout, bool ignored) {
  if (ignored) return {"dp_cp", "ep_shard"};
  const bool cuts = std::any_of(layout.parameters.begin(), layout.parameters.end(),
                                [](const auto& each) { return each.fsdp; });
  if (cuts) return {"dp_replicate", ""};
  return {layout.mesh.sizes().cp > 1 ? "dp_cp" : "dp_replicate", "ep_shard"};
}

}  // namespace am::layout
