// Entry points of am-run: launch this machine's ranks of a plan, or of any program.
#pragma once

#include <string>
#include <vector>

#include "job/options.h"

namespace am_run {

// Checks the plan, starts the ranks and reports how the job ended. Returns the exit status.
// `arguments`: the command line, passed on to the ranks.
int run_launcher(const Options& options, const std::vector<std::string>& arguments);
// Starts the program of --exec on every rank, without a plan, and reports how the job ended.
// Returns the exit status.
int run_program(const Options& options);

}  // namespace am_run
