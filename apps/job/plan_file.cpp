#include "job/plan_file.h"

#include "am/planner/rules.h"
#include "am/planner/runs.h"

namespace am_run {

using namespace am;

namespace {

// What am-run does not do, though the plan is valid.
std::vector<planner::Limit> limits_of_training(const model::ModelConfig& model) {
  std::vector<planner::Limit> limits = planner::limits_of_model(model);
  for (auto& limit : planner::limits_of_training(model)) limits.push_back(std::move(limit));
  return limits;
}

}  // namespace

std::optional<JobPlan> load_job_plan(const Options& options, int64_t world_size,
                                     const planner::CudaProbe& why_no_cuda, Diagnostics& found) {
  auto plan = config::load_plan(options.plan, options.overrides, found);
  if (!plan) return std::nullopt;
  plan->plugins = options.plugins;
  planner::CheckedPlan checked = planner::check(*plan, world_size, found);
  if (checked.mesh) {
    planner::refuse(planner::limits_of_plan(*plan, *checked.mesh), "is valid", found);
  }
  if (!options.dry_run) planner::check_backend(*plan, why_no_cuda, found);
  if (checked.model) planner::refuse(limits_of_training(*checked.model), "can be planned", found);
  if (!found.ok() || !checked.mesh || !checked.model) return std::nullopt;
  return JobPlan{*std::move(plan), *std::move(checked.model), *checked.mesh};
}

std::filesystem::path run_root(const Options& options) {
  if (!options.run_dir.empty()) return std::filesystem::absolute(options.run_dir);
  const std::filesystem::path job = options.exec()
                                        ? std::filesystem::path(options.command.front()).filename()
                                        : std::filesystem::path(options.plan).stem();
  return std::filesystem::absolute("runs") / job;
}

}  // namespace am_run
