#include "am/planner/units.h"

#include <algorithm>

namespace am::planner {

std::vector<bool> reshard_after_forward(const config::FSDP2Config& config,
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

}  // namespace am::planner
