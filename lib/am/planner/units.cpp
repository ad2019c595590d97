#include "am/planner/units.h"

#include <algorithm>
#include <variant>

namespace am::planner {

namespace {

std::vector<bool> fsdp2_reshards(const config::FSDP2Config& config,
                                 const std::vector<model::Unit>& units) {
  int last_layer = -1;
  for (const auto& unit : units) last_layer = std::max(last_layer, unit.layer);
  std::vector<bool> reshard;
  for (const auto& unit : units) {
    const bool root = unit.name.empty();
    bool wanted = !root && (unit.layer < 0 || unit.layer != last_layer) && unit.name != "lm_head";
    if (config.reshard_after_forward && !root) {
      const auto* flag = std::get_if<bool>(&*config.reshard_after_forward);
      wanted = flag == nullptr || *flag;
    }
    reshard.push_back(wanted);
  }
  return reshard;
}

}  // namespace

std::vector<bool> reshard_after_forward(const config::DistributedConfig& strategy,
                                        const std::vector<model::Unit>& units) {
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&strategy)) {
    return fsdp2_reshards(*fsdp2, units);
  }
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&strategy);
  return std::vector<bool>(units.size(), megatron != nullptr && megatron->zero_dp_strategy == 3);
}

}  // namespace am::planner
