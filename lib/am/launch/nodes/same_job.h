// Checks that all launchers of a job were started with equal --nproc, --nnodes and --max-restarts.
#pragma once

#include <cstdint>

#include "am/launch/supervise/job_spec.h"

namespace am::launch {

// On node 0, publishes this launcher's options as JobTerms (node_rendezvous.h). On other nodes,
// waits for node 0's JobTerms and compares them with this launcher's options. If they differ,
// informs all other nodes and throws Error(kUsage) with one differing option and both of its
// values. Throws Error(kPeer) if node 0 publishes no JobTerms within two minutes. Does nothing for
// a job of one node or without a store.
void check_same_job(const JobSpec& spec, int64_t max_restarts);

}  // namespace am::launch
