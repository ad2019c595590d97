// What am-run launches: this machine's ranks, of a plan or of any program.
#pragma once

#include <string>
#include <vector>

#include "job/options.h"

namespace am_run {

// Checks the plan, starts the ranks, reports how the job ended; the exit status. `arguments`: the
// command line, which the ranks get too.
int run_launcher(const Options& options, const std::vector<std::string>& arguments);
// The same for the program of --exec, without a plan.
int run_program(const Options& options);

}  // namespace am_run
