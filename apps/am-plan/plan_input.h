// A plan that can be shown: loaded, with its model, mesh and layout.
#pragma once

#include <optional>

#include "am/layout/layout.h"
#include "am/rules/check.h"
#include "common/output.h"
#include "options.h"

namespace am_plan {

struct PlanInput {
  am::config::Plan plan;
  am::model::ModelConfig model;
  am::layout::Layout layout;
};

// Calls rules::check_file, or applies the rules of options.dialect. A file that cannot be read
// returns nothing and adds the diagnostic "plan.file".
std::optional<am::rules::CheckedFile> check_plan(const std::string& path,
                                                 const PlanOptions& options,
                                                 am::Diagnostics& found);

// Loads and checks a plan. If it has an error that would make the answer wrong, prints it, sets
// `status` and returns nothing. Files that only the job needs (data, weights, checkpoints) may be
// missing, because planning may run on another machine. Prints warnings to stderr.
std::optional<PlanInput> load_input(const PlanOptions& options, const am_apps::Output& output,
                                    int& status);

// Throws Error(kUsage) if `rank` is set and the plan does not have this rank.
void require_rank(const std::optional<int64_t>& rank, const am::layout::Layout& layout);

// Whether a rule is about data, learning-rate schedules, checkpoints or weights, which a
// prediction does not need.
bool concerns_only_the_job(const std::string& rule);

}  // namespace am_plan
