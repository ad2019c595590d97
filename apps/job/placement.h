// Which part of a job this process is: by the options on its command line, then by the variables of
// the launcher that started it.
#pragma once

#include <optional>

#include "am/base/diagnostic.h"
#include "am/launch/environment/environment.h"
#include "job/options.h"

namespace am_run {

// The rank that another launcher has made of this process; nothing where the process is to start
// ranks itself. The variables of one machine (PET_*) fill the placement of `options`, unless the
// command line gives one. Errors of rule "launch.environment": variables that are wrong, and
// options that contradict them.
std::optional<am::launch::RankEnvironment> place_process(
    Options& options, const am::launch::EnvironmentLookup& lookup, am::Diagnostics& found);

}  // namespace am_run
