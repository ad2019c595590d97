// Whether the ranks that this machine is to start fit into its memory.
#pragma once

#include "am/launch/doctor/memory_fit.h"
#include "job/options.h"
#include "job/plan_file.h"

namespace am_run {

// Throws Error(kPlan) with both numbers when they do not, unless --force. Plans that run on GPUs
// are the doctor's to judge.
void require_memory(const Options& options, const am::planner::Job& job,
                    const am::launch::Space& memory);

}  // namespace am_run
