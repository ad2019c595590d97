// Opens the plan that the command line of am-run or am-run-rank names.
#pragma once

#include <filesystem>
#include <optional>

#include "am/base/diagnostic.h"
#include "am/job/job.h"
#include "job/options.h"

namespace am_run {

// Calls job::open_job with the plan and the options of the command line. `world_size` is the number
// of ranks that the launcher starts, or 0 to use the plan's number. `why_no_cuda` returns the
// reason why ranks cannot use a GPU. A dry run uses no GPU and does not call `why_no_cuda`.
std::optional<am::job::Job> open_job(const Options& options, int64_t world_size,
                                     const am::layout::CudaProbe& why_no_cuda,
                                     am::Diagnostics& found);

// Returns the absolute path of the run folder: the value of --run-dir if the option is set,
// otherwise runs/NAME-OF-PLAN-OR-PROGRAM in the current folder.
std::filesystem::path run_root(const Options& options);

}  // namespace am_run
