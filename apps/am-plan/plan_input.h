// A plan that is good enough to be shown: loaded, with its model, mesh and layout.
#pragma once

#include <optional>

#include "am/planner/layout.h"
#include "am/planner/rules.h"
#include "common/output.h"
#include "options.h"

namespace am_plan {

struct PlanInput {
  am::config::Plan plan;
  am::model::ModelConfig model;
  am::planner::Layout layout;
};

// What planner::check_file finds in the plan (or by the rules of options.dialect). A file that
// cannot be read is a diagnostic as well, "plan.file", and gives nothing.
std::optional<am::planner::CheckedFile> check_plan(const std::string& path,
                                                   const PlanOptions& options,
                                                   am::Diagnostics& found);

// Loads and checks. Nothing, and `status` set, when the plan has an error that would make the
// answer wrong; it has been printed then. Files that only the job needs (data, weights,
// checkpoints) may be missing: planning is done elsewhere. Warnings go to stderr.
std::optional<PlanInput> load_input(const PlanOptions& options, const am_apps::Output& output,
                                    int& status);

// Throws Error(kUsage) where the plan has no such rank.
void require_rank(const std::optional<int64_t>& rank, const am::planner::Layout& layout);

// Whether an error of this rule is about files and schedules that only the job needs.
bool concerns_only_the_job(const std::string& rule);

}  // namespace am_plan
