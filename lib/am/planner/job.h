// A plan that am-run and am-repl run, opened once: the plan, the model that it names, and the
// layout that they make.
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
#include "am/model/config.h"
#include "am/planner/backend_choice.h"
#include "am/planner/layout.h"
#include "am/planner/rules.h"

namespace am::planner {

struct Job {
  config::Plan plan;
  model::ModelConfig model;
  Layout layout;
};

// What rules are asked for: those of batches, data, schedule, optimizer and checkpoints are nothing
// to who only looks at the model.
enum class Purpose { kTraining, kInspection };

struct JobFile {
  std::filesystem::path file;
  std::vector<config::Override> overrides = {};
  int64_t world_size = 0;  // a launcher's; 0: the plan's own
  config::Plugins plugins = config::Plugins::kRefused;
  CudaProbe why_no_cuda = {};  // null: the job needs no backend (a dry run)
  Purpose purpose = Purpose::kTraining;
};

// Adds a "runtime.unsupported" error for everything of a plan and of its model that this version
// does not run (runs.h): am-run refuses by it, and am-plan check says it before.
void check_runs(const CheckedFile& file, Diagnostics& found);

// Nothing when the loader, a rule, or what this version runs (runs.h) reports an error; `found`
// has all of them. Throws Error(kIo) when the file cannot be read.
std::optional<Job> open_job(const JobFile& from, Diagnostics& found);

// Of a plan and a config that a program has, for a world of this size. Throws Error(kPlan) with the
// first error of the mesh or the layout; no other rule is asked.
Job make_job(const config::Plan& plan, const model::ModelConfig& model, int64_t world_size);

}  // namespace am::planner
