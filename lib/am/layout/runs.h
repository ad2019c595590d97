// Limits: features of a plan or model that this version of am-run cannot run. am-plan plans jobs
// with such features and reports the limits; am-run refuses these jobs.
//
//   for (const Limit& limit : limits_of(plan, model)) std::cerr << limit.what << "\n";
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/model/config.h"

namespace am::layout {

// A feature that a plan or config requests and am-run cannot run.
struct Limit {
  Span where;
  std::string what;  // the feature, for example "experts with biases"
  std::string help;  // alternatives that am-run supports
};

// Returns the features of a model that am-run cannot compute.
std::vector<Limit> limits_of_model(const model::ModelConfig& config);
// Returns the features of a plan that am-run cannot run. `model` is the config of the plan's model.
// Null: the model is unknown, and features that depend on the model are not returned.
std::vector<Limit> limits_of_plan(const config::Plan& plan,
                                  const model::ModelConfig* model = nullptr);
// Returns the limits of the model and of the plan.
std::vector<Limit> limits_of(const config::Plan& plan, const model::ModelConfig& config);

// Adds the limits as "runtime.unsupported" errors. `subject` is the part of the message after the
// feature's name, for example "can be planned".
void refuse(const std::vector<Limit>& limits, std::string_view subject, Diagnostics& found);

// Adds a "runtime.unsupported" error for every feature of a valid config that am-run cannot
// compute. Each error contains the line in the config.
void check_runnable(const model::ModelConfig& config, Diagnostics& found);

}  // namespace am::layout
