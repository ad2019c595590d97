// A launcher's departure from a job of several nodes.
#pragma once

#include "am/launch/cause/job_result.h"
#include "am/launch/supervise/job_spec.h"

namespace am::launch {

// Publishes that this node no longer reads the store. Node 0, which serves it, then waits for the
// other nodes to leave, except for those known to be gone: until no further node has left for 3 s,
// at most 60 s, and not if its user ended the waiting.
void leave(const JobSpec& spec, const JobResult& last);

}  // namespace am::launch
