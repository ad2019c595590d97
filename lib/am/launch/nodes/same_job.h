// Launchers that share a store run the same job, or one of them says in what they differ.
#pragma once

#include <cstdint>

#include "am/launch/supervise/job_spec.h"

namespace am::launch {

// Node 0 tells its terms (node_rendezvous.h) and returns; the others wait for them. Throws
// Error(kUsage) that names the first option that was given differently, with both values, after the
// other nodes were told; Error(kPeer) when node 0 tells nothing for two minutes. Nothing to do for
// one node.
void check_same_job(const JobSpec& spec, int64_t max_restarts);

}  // namespace am::launch
