// What this version of am-run can run, as facts without a tensor: of a model, of a plan's
// key. am-plan plans much more and says where am-run stops; am-run refuses it.
//
//   for (const Limit& limit : limits_of(plan, model)) std::cerr << limit.what << "\n";
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/model/config.h"

namespace am::planner {

// Something that a plan or a config asks for, and that am-run does not do.
struct Limit {
  Span where;
  std::string what;  // "pipeline parallelism"
  std::string help;  // what runs
};

// "llama", "mistral", "qwen2", ...
std::span<const std::string_view> runnable_families();

// Of the model's computation.
std::vector<Limit> limits_of_model(const model::ModelConfig& config);
std::vector<Limit> limits_of_plan(const config::Plan& plan);
// Both.
std::vector<Limit> limits_of(const config::Plan& plan, const model::ModelConfig& config);

// As "runtime.unsupported" errors: `subject` says whose they are.
void refuse(const std::vector<Limit>& limits, std::string_view subject, Diagnostics& found);

// Adds one, with its place in the config, for everything of a valid config that the decoder cannot
// compute.
void check_runnable(const model::ModelConfig& config, Diagnostics& found);

}  // namespace am::planner
