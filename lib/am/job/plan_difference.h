// Keys in which two plans differ, and a canonical form of plans, in which equal layouts have equal
// keys.
//
//   for (const auto& d : differences(a, b)) std::cout << d.key << ": " << d.a << " -> " << d.b;
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/model/config.h"

namespace am::job {

struct PlanDifference {
  std::string key;  // "mesh.tp_size", "strategy.mp_policy.param_dtype"
  Json a;           // null: absent, or not a key of that plan's strategy
  Json b;
};

// Returns the differences in the order of the field table; small tables are compared member by
// member. Numbers are equal if they agree to 12 digits. A key that only one plan's strategy has is
// compared with that key's default.
std::vector<PlanDifference> differences(const config::Plan& a, const config::Plan& b);

// Returns the plan in canonical form: values that follow from other keys are written out, and keys
// without effect have their defaults. Two plans with the same layout and training then have equal
// keys. Returns the plan unchanged if its mesh does not resolve. The config is needed for the
// layers of each stage.
config::Plan canonical(config::Plan plan, const model::ModelConfig& config);

}  // namespace am::job
