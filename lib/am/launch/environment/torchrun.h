// Variables that torchrun sets for its workers. am-run sets them for its ranks too, so that
// programs written for torchrun run unchanged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "am/launch/environment/environment.h"

namespace am::launch {

// Values of torchrun's variables that RankEnvironment does not contain.
struct TorchrunOptions {
  std::string run_id = "none";
  int64_t restart_count = 0;
  int64_t max_restarts = 0;
  // Whether the launcher serves the store at MASTER_ADDR:MASTER_PORT; otherwise rank 0 does.
  bool agent_store = false;
  std::filesystem::path error_file;  // value of TORCHELASTIC_ERROR_FILE; empty: not set
  int64_t cores = 1;  // cores of this machine, from which OMP_NUM_THREADS is computed
  bool omp_num_threads_given = false;  // OMP_NUM_THREADS is set by the user and stays unchanged
};

// Returns the names and values of torchrun's variables for one rank, and NUM_NODES. Unless
// omp_num_threads_given, OMP_NUM_THREADS is max(1, cores / local_world_size).
std::vector<std::pair<std::string, std::string>> torchrun_variables(
    const RankEnvironment& environment, const TorchrunOptions& options);

}  // namespace am::launch
