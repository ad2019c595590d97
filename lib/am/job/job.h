// A plan opened for am-run or am-repl: the plan, its model, and the resulting layout.
//
//   const auto job = open_job({.file = "plan.toml", .world_size = 8}, found);
//   if (job) std::cout << job->layout.mesh.world_size();
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/layout/backend_choice.h"
#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/rules/check.h"

namespace am::job {

struct Job {
  config::Plan plan;
  model::ModelConfig model;
  layout::Layout layout;
};

// Rules to apply. Under kInspection, rules about batches, data, schedule, optimizer and checkpoints
// are skipped.
enum class Purpose { kTraining, kInspection };

struct JobFile {
  std::filesystem::path file;
  std::vector<config::Override> overrides = {};
  int64_t world_size = 0;  // number of ranks the launcher started; 0: the plan's own
  config::Plugins plugins = config::Plugins::kRefused;
  layout::CudaProbe why_no_cuda = {};  // null: the job needs no backend (a dry run)
  Purpose purpose = Purpose::kTraining;
};

// Adds a "runtime.unsupported" error for every feature of the plan and its model that this version
// cannot run (runs.h). am-run refuses the plan with these errors; am-plan check reports them
// earlier.
void check_runs(const rules::CheckedFile& file, Diagnostics& found);

// Loads and checks the plan. Returns nothing if the loader, a rule or runs.h reports an error; all
// of them are in `found`. Throws Error(kIo) if the file cannot be read.
std::optional<Job> open_job(const JobFile& from, Diagnostics& found);

// Makes a job from a program's own plan and config for a world of this size. Throws Error(kPlan)
// with the first error of the mesh or the layout; other rules are not checked.
Job make_job(const config::Plan& plan, const model::ModelConfig& model, int64_t world_size);

}  // namespace am::job
