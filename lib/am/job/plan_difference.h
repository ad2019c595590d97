// Finds the keys in which two plans differ. Also converts a plan to a canonical form, in which two
// plans for the same job have equal keys.
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
  std::string key;  // for example "mesh.tp_size" or "strategy.mp_policy.param_dtype"
  // The key's values in the plans `a` and `b`. Null: the key is not set and has no default.
  Json a;
  Json b;
};

// Returns the differences in the order of the plan's table of fields. Nested tables such as
// mp_policy are compared member by member. Numbers are equal if they agree to 12 digits. A key that
// only one plan has is compared with its default in that plan's strategy.
std::vector<PlanDifference> differences(const config::Plan& a, const config::Plan& b);

// Returns the plan in canonical form: values that follow from other keys are set, and keys without
// effect have their defaults. Two plans with the same layout and training then have equal keys.
// Returns the plan unchanged if its mesh sizes are invalid. `config` gives the number of layers, to
// compare how they are split into stages.
config::Plan canonical(config::Plan plan, const model::ModelConfig& config);

}  // namespace am::job
