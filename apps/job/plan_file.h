// The plan as both lives of am-run read it: loaded, checked by am-plan's rules and by what this
// build can run.
#pragma once

#include <filesystem>
#include <optional>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"
#include "am/planner/backend_choice.h"
#include "job/options.h"

namespace am_run {

struct JobPlan {
  am::config::Plan plan;
  am::model::ModelConfig model;
  am::mesh::MeshSizes mesh;
};

// Nothing when something is wrong; `found` then says all of it. `world_size`: the launcher's, or 0.
std::optional<JobPlan> load_job_plan(const Options& options, int64_t world_size,
                                     const am::planner::CudaProbe& why_no_cuda,
                                     am::Diagnostics& found);

// --run-dir, or runs/<plan's or program's name> in the current folder; absolute.
std::filesystem::path run_root(const Options& options);

}  // namespace am_run
