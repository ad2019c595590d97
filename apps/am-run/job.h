// The lives of am-run: the launcher that starts this machine's ranks, of a plan or of any program,
// and one rank of a plan.
#pragma once

#include <string>
#include <vector>

#include "am/launch/environment.h"
#include "options.h"

namespace am_run {

// Checks the plan, starts the ranks, reports how the job ended; the exit status.
int run_launcher(const Options& options, const std::vector<std::string>& arguments);
// The same for the program of --exec, without a plan.
int run_program(const Options& options);
// One rank's part of a step, without the job; the exit status.
int run_dry(const Options& options);
// One rank, under whatever launcher; the exit status.
int run_rank(const Options& options, const am::launch::RankEnvironment& here);

}  // namespace am_run
