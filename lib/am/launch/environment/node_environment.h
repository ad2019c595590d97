// Finds which machine of a job this is, from the variables of Kubeflow's trainer and of a
// PyTorchJob with several processes per pod: one process per machine, which starts the ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/base/diagnostic.h"
#include "am/launch/environment/environment.h"

namespace am::launch {

// One machine of a job whose ranks am-run starts: torchrun's options, set as variables.
struct NodeEnvironment {
  int64_t num_nodes = 1;
  int64_t node_rank = 0;
  int64_t ranks = 0;    // on this machine; 0: the plan gives the number
  std::string address;  // HOST:PORT of machine 0; empty with one machine
};

// Reads PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, and PET_MASTER_ADDR with PET_MASTER_PORT or
// PET_RDZV_ENDPOINT. If they are unset, the address is MASTER_ADDR with MASTER_PORT, and a
// PyTorchJob's RANK is the node rank and its WORLD_SIZE the number of ranks. Returns nothing,
// without an error, if the variables describe no machine or the process is already a rank
// (LOCAL_RANK). Reports errors like detect_environment.
std::optional<NodeEnvironment> detect_node(const EnvironmentLookup& lookup, Diagnostics& found);

}  // namespace am::launch
