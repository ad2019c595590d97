// The version that NCCL's library reports, and the number of ranks that may share a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/launch/environment/environment.h"

namespace am::launch {

// Formats the number that ncclGetVersion returns, for example 22809 as "2.28.9". Up to NCCL 2.8 the
// minor version is one digit of the number (2804 is 2.8.4), since NCCL 2.9 two (20906 is 2.9.6).
std::string nccl_version_name(int version);

// Returns the version number of the NCCL library that this process has linked, preloaded
// (LD_PRELOAD), or loaded with RTLD_GLOBAL. Returns nothing if no NCCL library is loaded or it
// reports no version.
std::optional<int> loaded_nccl_version();

// First version of NCCL that allows several ranks on one GPU, if NCCL_MULTI_RANK_GPU_ENABLE=1 is
// set.
inline constexpr int kFirstNcclWithSharedGpus = 23000;

inline constexpr const char* kRanksPerGpuVariable = "AM_RANKS_PER_GPU";

// Returns how many ranks may share a GPU over NCCL; 1 if AM_RANKS_PER_GPU is not set. Throws
// Error(kUsage) if the value is not an integer of at least 1.
int64_t ranks_per_gpu(const EnvironmentLookup& lookup = process_environment());

}  // namespace am::launch
