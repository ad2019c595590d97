// Checks that launchers that share a store run the same job.
#pragma once

#include <cstdint>

#include "am/launch/supervise/job_spec.h"

namespace am::launch {

// Node 0 publishes its job parameters (node_rendezvous.h) and returns; the other nodes wait for
// them. Throws Error(kUsage) that names the first differing option with both values, after telling
// the other nodes; Error(kPeer) if node 0 publishes nothing for two minutes. Does nothing for one
// node.
void check_same_job(const JobSpec& spec, int64_t max_restarts);

}  // namespace am::launch
