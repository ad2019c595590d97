// The four modes of am-run-rank: one rank of a job, one rank's dry run, verification of a layout,
// and `am-run doctor PLAN`.
#pragma once

#include "am/launch/environment/environment.h"
#include "job/options.h"

namespace am_run {

// Runs one rank under any launcher. Returns the exit status.
int run_rank(const Options& options, const am::launch::RankEnvironment& here);
// Runs one rank's share of a step without a job. Returns the exit status.
int run_dry(const Options& options);
// Compares a small model under the plan's layout with the same model on one rank. Returns the exit
// status.
int run_verify(const Options& options);
// Checks whether this machine can run the plan. `argv` begins at "doctor". Prints a table, or one
// object with --json. Returns the exit status: 0 if the machine is fit, 1 if an error was found, 2
// if the command line or the plan cannot be read.
int run_doctor(int argc, char** argv);

}  // namespace am_run
