// Role of this process in a job, from its command line and from the environment of the launcher
// that started it.
#pragma once

#include <optional>

#include "am/base/diagnostic.h"
#include "am/launch/environment/environment.h"
#include "job/options.h"

namespace am_run {

// Returns the rank that another launcher assigned to this process, or nothing if this process must
// start ranks itself. PET_* variables describe one machine whose ranks am-run must start: they set
// --nproc, --nnodes, --node-rank and --rdzv in `options`, unless the command line sets any of
// these. Invalid variables, and options that contradict them, are errors of rule
// "launch.environment".
std::optional<am::launch::RankEnvironment> place_process(
    Options& options, const am::launch::EnvironmentLookup& lookup, am::Diagnostics& found);

}  // namespace am_run
