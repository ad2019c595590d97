#include "am/config/recomputation.h"

#include <algorithm>
#include <array>
#include <utility>

namespace am::config {
namespace {

using Flag = bool RecomputedModules::*;

constexpr std::array<std::string_view, 8> kNames = {
    "core_attn", "mlp", "layernorm", "moe", "mlp_act", "moe_act", "mla_up_proj", "shared_experts"};
constexpr std::array<Flag, 8> kMembers = {
    &RecomputedModules::core_attn,   &RecomputedModules::mlp,
    &RecomputedModules::layernorm,   &RecomputedModules::moe,
    &RecomputedModules::mlp_act,     &RecomputedModules::moe_act,
    &RecomputedModules::mla_up_proj, &RecomputedModules::shared_experts};

}  // namespace

std::span<const std::string_view> recompute_module_names() { return kNames; }

RecomputedModules recomputed_modules(const std::vector<std::string>& names) {
  RecomputedModules modules;
  modules.core_attn = names.empty();
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (std::find(names.begin(), names.end(), kNames[i]) != names.end()) {
      modules.*kMembers[i] = true;
    }
  }
  return modules;
}

}  // namespace am::config
