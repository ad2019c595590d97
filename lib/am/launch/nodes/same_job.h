// Checks that the launchers of a job were started with equal numbers of ranks, nodes and restarts.
#pragma once

#include <cstdint>

#include "am/launch/supervise/job_spec.h"

namespace am::launch {

// Publishes this launcher's JobTerms (node_rendezvous.h) on node 0; on other nodes, waits for node
// 0's terms and compares them. If they differ, informs the other nodes and throws Error(kUsage)
// with the first differing option and both values. Throws Error(kPeer) if node 0 publishes nothing
// for two minutes. Does nothing for a job of one node.
void check_same_job(const JobSpec& spec, int64_t max_restarts);

}  // namespace am::launch
