// Ends a launcher's participation in a job of several nodes.
#pragma once

#include "am/launch/cause/job_result.h"
#include "am/launch/supervise/job_spec.h"

namespace am::launch {

// On nodes other than 0, publishes that this node no longer reads the store. On node 0, which
// serves the store, waits until the other nodes have left. Node 0 does not wait for nodes whose
// launchers are gone. It stops waiting if no node has left within 3 s, and after 60 s at the
// latest. It does not wait at all if the user killed the job or ended an earlier wait. `last`:
// result of the last attempt. Does nothing for a job of one node or if the store is lost.
void leave(const JobSpec& spec, const JobResult& last);

}  // namespace am::launch
