// Code shared by the launcher of a plan and the launcher of a program (--exec): describes the ranks
// of this node, prints output while the job runs, and prints the final report.
#pragma once

#include <filesystem>

#include "am/launch/supervise/job_spec.h"
#include "am/launch/supervise/restart.h"
#include "am/run_folder/held_folder.h"
#include "am/run_folder/run_folder.h"
#include "job/options.h"

namespace am_run {

// Returns the JobSpec of this node's `ranks_per_node` ranks. The caller must set `argv`; Rendezvous
// sets the address, port and store.
am::launch::JobSpec node_spec(const Options& options, int64_t ranks_per_node,
                              const am::run_folder::RunFolder& run);

// Runs the job to its end, including restarts, and returns the exit status. Rank 0's output, the
// launcher's messages and the failure report go to stderr; with --json, one object about the job
// goes to stdout. The job's results are read through `held`, an open handle of the run folder, so
// that they are found even if the folder was moved during the job.
int supervise_and_report(const Options& options, am::launch::JobSpec spec,
                         am::launch::RestartPolicy policy, const am::run_folder::RunFolder& run,
                         const am::run_folder::HeldFolder& held);

}  // namespace am_run
