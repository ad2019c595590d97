// Opens the plan of the command line, for am-run and am-run-rank.
#pragma once

#include <filesystem>
#include <optional>

#include "am/base/diagnostic.h"
#include "am/job/job.h"
#include "job/options.h"

namespace am_run {

// Calls job::open_job with the command line's plan and options. `world_size`: number of ranks that
// the launcher started; 0: the plan's own number. A dry run ignores `why_no_cuda`.
std::optional<am::job::Job> open_job(const Options& options, int64_t world_size,
                                     const am::layout::CudaProbe& why_no_cuda,
                                     am::Diagnostics& found);

// Returns --run-dir, or runs/<plan's or program's name> in the current folder, as an absolute path.
std::filesystem::path run_root(const Options& options);

}  // namespace am_run
