// What a launcher of a plan and one of a program have in common: the node's place in the job, what
// is said on the way, and the report at the end.
#pragma once

#include <filesystem>

#include "am/launch/supervise/job_spec.h"
#include "am/launch/supervise/restart.h"
#include "am/run_folder/held_folder.h"
#include "am/run_folder/run_folder.h"
#include "job/options.h"

namespace am_run {

// `ranks_per_node` ranks of this node; argv is left to the caller, where they meet to a Rendezvous.
am::launch::JobSpec node_spec(const Options& options, int64_t ranks_per_node,
                              const am::run_folder::RunFolder& run);

// Runs the job to its end, restarts included; rank 0's output, the launcher's words and the block
// about a failure go to stderr, with --json one object about the job to stdout: what it did is read
// where the folder of `run` is by then, by `held`. The exit status.
int supervise_and_report(const Options& options, am::launch::JobSpec spec,
                         am::launch::RestartPolicy policy, const am::run_folder::RunFolder& run,
                         const am::run_folder::HeldFolder& held);

}  // namespace am_run
