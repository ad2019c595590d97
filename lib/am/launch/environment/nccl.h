// NCCL's version as reported by the library, and the number of ranks that may share a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/launch/environment/environment.h"

namespace am::launch {

// Formats the number returned by ncclGetVersion: 22809 -> "2.28.9". Up to 2.8 the minor version has
// one digit (2804 is 2.8.4), since 2.9 two digits (20906 is 2.9.6).
std::string nccl_version_name(int version);

// Returns the version number of the NCCL that this process has loaded with global visibility or
// preloaded (LD_PRELOAD). Returns nothing if there is none or it does not report a version.
std::optional<int> loaded_nccl_version();

// First version of NCCL that supports several ranks on one GPU, which NCCL_MULTI_RANK_GPU_ENABLE=1
// requests.
inline constexpr int kFirstNcclWithSharedGpus = 23000;

inline constexpr const char* kRanksPerGpuVariable = "AM_RANKS_PER_GPU";

// Returns how many ranks may share a GPU over NCCL; 1 if AM_RANKS_PER_GPU is not set. Throws
// Error(kUsage) if the value is not an integer of at least 1.
int64_t ranks_per_gpu(const EnvironmentLookup& lookup = process_environment());

}  // namespace am::launch
