// Determines this machine's position in a job from the variables that Kubernetes jobs set: jobs of
// Kubeflow's trainer, and PyTorchJobs with several processes per pod. Such jobs start one process
// per machine (pod), and this process starts the ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/base/diagnostic.h"
#include "am/launch/environment/environment.h"

namespace am::launch {

// This machine's position in a job. The variables have the names of torchrun's options with the
// prefix PET_. am-run starts the machine's ranks.
struct NodeEnvironment {
  int64_t num_nodes = 1;
  int64_t node_rank = 0;
  int64_t ranks = 0;    // number of ranks on this machine; 0: as in the plan
  std::string address;  // HOST:PORT of machine 0's rendezvous; empty if the job has one machine
};

// Reads PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, and the address in PET_RDZV_ENDPOINT or in
// PET_MASTER_ADDR and PET_MASTER_PORT. If the address is missing, reads it from MASTER_ADDR and
// MASTER_PORT. If the node rank is missing, reads it from a PyTorchJob's RANK. Without PET_NNODES,
// the number of nodes is a PyTorchJob's WORLD_SIZE (the number of all ranks) divided by
// PET_NPROC_PER_NODE.
//
// Returns nothing, without an error, if the variables describe no machine or the process is already
// a rank (LOCAL_RANK is set). Reports errors in `found`, as detect_environment() does.
std::optional<NodeEnvironment> detect_node(const EnvironmentLookup& lookup, Diagnostics& found);

}  // namespace am::launch
