// What am-run-rank does, in one of three lives: it is a rank of a job, takes one rank's step
// without a job, or tries a layout out.
#pragma once

#include "am/launch/environment/environment.h"
#include "job/options.h"

namespace am_run {

// One rank, under whatever launcher; the exit status.
int run_rank(const Options& options, const am::launch::RankEnvironment& here);
// One rank's part of a step, without the job; the exit status.
int run_dry(const Options& options);
// The plan's layout on a small model against one rank; the exit status.
int run_verify(const Options& options);

}  // namespace am_run
