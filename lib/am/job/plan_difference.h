// Finds the keys in which two plans differ. canonical() converts plans to a form in which two plans
// of the same job differ in fewer keys.
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
  // The values of the key in the plans `a` and `b`. Null if the key is not set and has no default.
  Json a;
  Json b;
};

// Returns one entry for each key with different values, in the order of the fields of plan `a`;
// keys that only plan `b` has come last. Nested tables such as mp_policy are compared member by
// member. Floating-point numbers are equal within a relative difference of 1e-12. If only one
// plan's strategy has a key, the value in this plan is compared with the key's default.
std::vector<PlanDifference> differences(const config::Plan& a, const config::Plan& b);

// Returns the plan in canonical form: many values that follow from other keys are set, and many
// keys without effect are reset to their defaults. If the plan's mesh sizes are invalid, converts
// only cluster.implementation. `config`: the model, whose number of layers determines the stages.
config::Plan canonical(config::Plan plan, const model::ModelConfig& config);

}  // namespace am::job
