// Three modes of am-run-rank: one rank of a job, one rank's dry run, and verification of a layout.
#pragma once

#include "am/launch/environment/environment.h"
#include "job/options.h"

namespace am_run {

// Runs one rank of a job, whichever launcher started it. Returns the exit status if training ends
// or is stopped. If the rank fails, reports the error and ends the process.
int run_rank(const Options& options, const am::launch::RankEnvironment& here);
// Runs one step of one rank without the other ranks of the job (--dry-run). Returns the exit
// status.
int run_dry(const Options& options);
// Trains a small model under the plan's layout and on one rank, and compares the results
// (--verify-layout). Returns the exit status.
int run_verify(const Options& options);

}  // namespace am_run
