// The plan as both lives of am-run read it.
#pragma once

#include <filesystem>
#include <optional>

#include "am/base/diagnostic.h"
#include "am/planner/job.h"
#include "job/options.h"

namespace am_run {

// planner::open_job of the command line's plan. `world_size`: the launcher's, or 0.
std::optional<am::planner::Job> open_job(const Options& options, int64_t world_size,
                                         const am::planner::CudaProbe& why_no_cuda,
                                         am::Diagnostics& found);

// --run-dir, or runs/<plan's or program's name> in the current folder; absolute.
std::filesystem::path run_root(const Options& options);

}  // namespace am_run
