// Check that the ranks to start on this machine fit into its memory.
#pragma once

#include "am/launch/doctor/memory_fit.h"
#include "job/options.h"
#include "job/plan_file.h"

namespace am_run {

// Throws Error(kPlan) with required and available bytes if the ranks do not fit, unless --force is
// set. Plans for GPUs are checked by am-run doctor instead.
void require_memory(const Options& options, const am::job::Job& job,
                    const am::launch::MemoryInfo& memory);

}  // namespace am_run
