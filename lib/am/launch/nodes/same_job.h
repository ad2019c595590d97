// Checks that launchers that share a store run the same job.
#pragma once

#include <cstdint>

#include "am/launch/supervise/job_spec.h"

namespace am::launch {

// On node 0, publishes JobTerms (node_rendezvous.h) and returns; on other nodes, waits for them and
// compares. Throws Error(kUsage) that names the first differing option with both values, after
// informing the other nodes; Error(kPeer) if node 0 publishes nothing for two minutes. Does nothing
// for one node.
void check_same_job(const JobSpec& spec, int64_t max_restarts);

}  // namespace am::launch
