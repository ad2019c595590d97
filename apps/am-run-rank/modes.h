// The four modes of am-run-rank: one rank of a job, one rank's dry run, verification of a layout,
// and `am-run doctor PLAN`.
#pragma once

#include "am/launch/environment/environment.h"
#include "job/options.h"

namespace am_run {

// Runs one rank of a job, whichever launcher started it. Returns the exit status.
int run_rank(const Options& options, const am::launch::RankEnvironment& here);
// Runs one step of one rank without the other ranks of the job (--dry-run). Returns the exit
// status.
int run_dry(const Options& options);
// Trains a small model under the plan's layout and on one rank, and compares the results
// (--verify-layout). Returns the exit status.
int run_verify(const Options& options);
// Checks whether this machine can run the plan. `argv` begins at "doctor". Prints a table, or one
// object with --json. Returns the exit status: 0 if the machine is fit, 1 if an error was found, 2
// if the command line or the plan cannot be read.
int run_doctor(int argc, char** argv);

}  // namespace am_run
