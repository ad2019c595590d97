#include "plan_file.h"

#include "am/nn/runnable.h"
#include "am/parallel/parallel_model.h"
#include "am/planner/rules.h"

namespace am_run {

std::optional<JobPlan> load_job_plan(const Options& options, int64_t world_size,
                                     am::Diagnostics& found) {
  auto plan = am::config::load_plan(options.plan, options.overrides, found);
  if (!plan) return std::nullopt;
  plan->plugins = options.plugins;
  am::planner::CheckedPlan checked = am::planner::check(*plan, world_size, found);
  if (checked.mesh) am::parallel::check_supported(*plan, *checked.mesh, found);
  if (!options.dry_run) am::parallel::check_backend(*plan, found);
  if (checked.model) am::nn::check_trainable(*checked.model, found);
  if (!found.ok() || !checked.mesh || !checked.model) return std::nullopt;
  return JobPlan{*std::move(plan), *std::move(checked.model), *checked.mesh};
}

std::filesystem::path run_folder(const Options& options) {
  if (!options.run_dir.empty()) return std::filesystem::absolute(options.run_dir);
  const std::filesystem::path job = options.exec()
                                        ? std::filesystem::path(options.command.front()).filename()
                                        : std::filesystem::path(options.plan).stem();
  return std::filesystem::absolute("runs") / job;
}

}  // namespace am_run
