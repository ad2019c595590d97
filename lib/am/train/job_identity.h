// Identity of the job, on which all ranks agree before the first step.
#pragma once

#include <string>

#include "am/run_folder/job_record.h"
#include "am/runtime/world.h"

namespace am::train {

// Collective. `own`: the id that this rank's launcher generated; empty if the rank was not started
// by am-run.
run_folder::JobIdentity agree_on_job(const runtime::World& world, const std::string& own);

}  // namespace am::train
