// Which keys of two plans differ, and plans in which equal layouts have equal keys.
//
//   for (const auto& d : differences(a, b)) std::cout << d.key << ": " << d.a << " -> " << d.b;
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/model/config.h"

namespace am::planner {

struct PlanDifference {
  std::string key;  // "mesh.tp_size", "strategy.mp_policy.param_dtype"
  Json a;           // null: absent, or no key of that plan's strategy
  Json b;
};

// In the order of the field table; small tables member by member. Numbers are equal when 12 digits
// are. A key that only one plan's strategy has is compared with that key's default.
std::vector<PlanDifference> differences(const config::Plan& a, const config::Plan& b);

// The plan with everything that follows from its other keys written out, and with defaults in the
// place of what has no effect: two plans of the same layout and training differ in no key then.
// The plan as it is when its mesh does not resolve. The model's layers, for the stages' split.
config::Plan settled(config::Plan plan, const model::ModelConfig& config);

}  // namespace am::planner
