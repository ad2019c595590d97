// The two lives of am-run: the launcher that starts this machine's ranks, and one rank.
#pragma once

#include <string>
#include <vector>

#include "am/launch/environment.h"
#include "options.h"

namespace am_run {

// Checks the plan, starts the ranks, reports how the job ended; the exit status.
int run_launcher(const Options& options, const std::vector<std::string>& arguments);
// One rank, under whatever launcher; the exit status.
int run_rank(const Options& options, const am::launch::RankEnvironment& here);

}  // namespace am_run
