// Ends a launcher's participation in a job of several nodes.
#pragma once

#include "am/launch/cause/job_result.h"
#include "am/launch/supervise/job_spec.h"

namespace am::launch {

// On nodes other than 0, publishes that this node no longer reads the store. Node 0, which serves
// the store, waits for the other nodes to leave, except for nodes that are known to be gone. Node 0
// stops waiting once no further node has left for 3 s, or after 60 s. Node 0 does not wait if the
// user killed the job or ended an earlier wait.
void leave(const JobSpec& spec, const JobResult& last);

}  // namespace am::launch
