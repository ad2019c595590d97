// Which job the ranks belong to, agreed by all of them before the first step.
#pragma once

#include <string>

#include "am/run_folder/job_record.h"
#include "am/runtime/world.h"

namespace am::train {

// Collective. `own`: what this rank's launcher drew; empty: it has none of ours.
run_folder::JobIdentity agree_on_job(const runtime::World& world, const std::string& own);

}  // namespace am::train
