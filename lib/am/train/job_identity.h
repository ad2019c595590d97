// Lets all ranks agree on the identity of their job before the first step.
#pragma once

#include <string>

#include "am/run_folder/job_record.h"
#include "am/runtime/world.h"

namespace am::train {

// Returns the job's identity: the job's id, and the ids of all launchers. All ranks return equal
// identities. `own` is the id that this rank's launcher generated; empty if am-run did not start
// this rank. Collective.
run_folder::JobIdentity agree_on_job(const runtime::World& world, const std::string& own);

}  // namespace am::train
