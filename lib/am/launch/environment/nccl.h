// NCCL's version as the library itself tells it, and how many ranks share a GPU over it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/launch/environment/environment.h"

namespace am::launch {

// ncclGetVersion's number 22809 -> "2.28.9". Up to 2.8 it was 2 8 04, since then it is 2 09 06.
std::string nccl_version_name(int version);

// The number of the NCCL that this process has loaded for all of it to use, or that was preloaded
// (LD_PRELOAD). Nothing: there is none, or it does not tell.
std::optional<int> loaded_nccl_version();

// The first that can have several ranks on one GPU, which NCCL_MULTI_RANK_GPU_ENABLE=1 asks for.
inline constexpr int kFirstNcclWithSharedGpus = 23000;

inline constexpr const char* kRanksPerGpuVariable = "AM_RANKS_PER_GPU";

// How many ranks may share a GPU over NCCL; 1 where the variable is not set. Throws Error(kUsage)
// for what is no number from 1.
int64_t ranks_per_gpu(const EnvironmentLookup& lookup = process_environment());

}  // namespace am::launch
