// Which machine of a job is this? The variables of Kubeflow's trainer, and of a PyTorchJob with
// several processes a pod: one process a machine, which starts the ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/base/diagnostic.h"
#include "am/launch/environment/environment.h"

namespace am::launch {

// One machine of a job whose ranks am-run starts: torchrun's options as variables.
struct NodeEnvironment {
  int64_t num_nodes = 1;
  int64_t node_rank = 0;
  int64_t ranks = 0;    // of this machine; 0: the plan says it
  std::string address;  // HOST:PORT of machine 0; empty where there is one machine
};

// PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, and PET_MASTER_ADDR with PET_MASTER_PORT or
// PET_RDZV_ENDPOINT; names without PET_ stand in for those that are not set. Nothing, without an
// error, where they describe no machine or the process is a rank already (LOCAL_RANK). Errors as
// detect_environment's.
std::optional<NodeEnvironment> detect_node(const EnvironmentLookup& lookup, Diagnostics& found);

}  // namespace am::launch
