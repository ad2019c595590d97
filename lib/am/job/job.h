// A plan that was loaded and checked for am-run or am-repl, together with its model config and its
// layout.
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

// The purpose for which a plan is opened. kInspection is for uses without training. With
// kInspection, open_job() ignores violations of the rules batch.*, seq.*, data.*, train.*,
// scheduler.*, checkpoint.* and optimizer.*.
enum class Purpose { kTraining, kInspection };

struct JobFile {
  std::filesystem::path file;
  std::vector<config::Override> overrides = {};
  int64_t world_size = 0;  // ranks that the launcher started; 0: the plan's world_size
  config::Plugins plugins = config::Plugins::kRefused;
  // Function that returns why CUDA cannot be used. Null for a dry run: the plan's backend is then
  // not checked.
  layout::CudaProbe why_no_cuda = {};
  Purpose purpose = Purpose::kTraining;
};

// Adds an error "runtime.unsupported" for every feature of the plan or its model that this version
// of am-run cannot run (layout/runs.h). am-run refuses a plan with such an error; `am-plan check`
// reports the error before a job is started.
void check_runs(const rules::CheckedFile& file, Diagnostics& found);

// Loads and checks a plan. For training, converts data.eod_token from a name to an id. Adds the
// errors of the loader, the rules, check_runs() and the check of the backend to `found`; returns
// nullopt if there is any error. Throws Error(kIo) if the file cannot be read and, for training,
// the errors of data::eod_token_id().
std::optional<Job> open_job(const JobFile& from, Diagnostics& found);

// Builds a job of `world_size` ranks from a plan and a model config that were created in memory.
// Throws Error(kPlan) with the first error of the mesh or the layout; checks no other rules.
Job make_job(const config::Plan& plan, const model::ModelConfig& model, int64_t world_size);

}  // namespace am::job
