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

// Facts for torchrun's variables that RankEnvironment does not contain.
struct TorchrunOptions {
  std::string run_id = "none";
  int64_t restart_count = 0;
  int64_t max_restarts = 0;
  // Whether the launcher serves the store at MASTER_ADDR:MASTER_PORT. Otherwise rank 0 serves it.
  bool agent_store = false;
  std::filesystem::path error_file;    // value of TORCHELASTIC_ERROR_FILE; empty: not set
  int64_t cores = 1;                   // number of cores from which OMP_NUM_THREADS is computed
  bool omp_num_threads_given = false;  // whether OMP_NUM_THREADS is set already and stays unchanged
};

// Returns the names and values of torchrun's variables for one rank, and of the variable NUM_NODES
// (the number of nodes). If options.omp_num_threads_given is false, the result also contains
// OMP_NUM_THREADS, computed by threads_per_rank() (cores.h).
std::vector<std::pair<std::string, std::string>> torchrun_variables(
    const RankEnvironment& environment, const TorchrunOptions& options);

}  // namespace am::launch
