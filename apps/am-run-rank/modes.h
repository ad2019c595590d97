// The three modes of am-run-rank: one rank of a job, one rank's dry run, and verification of a
// layout.
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

}  // namespace am_run
