// A plan that was loaded and checked for am-run or am-repl, with its model and its layout.
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

// The purpose for which a plan is opened. kInspection: rules about batches, data, learning-rate
// schedule, optimizer and checkpoints are not applied, because a session that only inspects the
// model does not need them.
enum class Purpose { kTraining, kInspection };

struct JobFile {
  std::filesystem::path file;
  std::vector<config::Override> overrides = {};
  int64_t world_size = 0;  // number of ranks that the launcher started; 0: the plan's own number
  config::Plugins plugins = config::Plugins::kRefused;
  // Function that tells why CUDA cannot be used. Null: the plan's backend is not checked, because
  // nothing will run (a dry run).
  layout::CudaProbe why_no_cuda = {};
  Purpose purpose = Purpose::kTraining;
};

// Adds an error "runtime.unsupported" for every feature of the plan and its model that this version
// of am-run cannot run (layout/runs.h). am-run refuses a plan with these errors; `am-plan check`
// reports them before a job is started.
void check_runs(const rules::CheckedFile& file, Diagnostics& found);

// Loads and checks the plan. Adds all errors of the loader, of the rules and of check_runs() to
// `found`; returns nullopt if there are any. Throws Error(kIo) if the file cannot be read.
std::optional<Job> open_job(const JobFile& from, Diagnostics& found);

// Makes a job of `world_size` ranks from a plan and a model config that a program has built itself.
// Throws Error(kPlan) with the first error of the mesh or the layout; other rules are not checked.
Job make_job(const config::Plan& plan, const model::ModelConfig& model, int64_t world_size);

}  // namespace am::job
