// The variables that torchrun sets for its workers, so that our ranks, and programs written for
// torchrun, find the same ones under our launcher.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "am/launch/environment/environment.h"

namespace am::launch {

// What torchrun tells a worker and RankEnvironment does not hold.
struct TorchrunOptions {
  std::string run_id = "none";
  int64_t restart_count = 0;
  int64_t max_restarts = 0;
  // The launcher serves the store at MASTER_ADDR:MASTER_PORT; else rank 0 does.
  bool agent_store = false;
  std::filesystem::path error_file;    // TORCHELASTIC_ERROR_FILE; empty: not set
  int64_t cores = 1;                   // of this machine, for OMP_NUM_THREADS
  bool omp_num_threads_given = false;  // the user chose OMP_NUM_THREADS: leave it
};

// torchrun's whole set for one rank, so that programs written for torchrun run under our launcher.
// OMP_NUM_THREADS = max(1, cores / local_world_size), unless it is given already.
std::vector<std::pair<std::string, std::string>> torchrun_variables(
    const RankEnvironment& environment, const TorchrunOptions& options);

}  // namespace am::launch
