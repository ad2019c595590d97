// Lists this machine's NVIDIA GPUs through the driver's NVML library, without initializing CUDA.
//
//   const GpuReport gpus = ask_nvml("libnvidia-ml.so.1");
//   if (!gpus.problem.empty()) ...     // for example, there is no driver
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace am::launch {

struct Gpu {
  std::string name;  // for example "NVIDIA H100 80GB HBM3"
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  int compute_major = 0;  // major compute capability: 9 for Hopper, 10 for Blackwell; 0: unknown
};

struct GpuReport {
  // Message of the first failure, after which no further facts are queried; empty on success.
  std::string problem;
  std::string driver_version;
  std::vector<Gpu> gpus;  // in the order of the driver's indices
};

// Loads the NVML library `library`, queries all GPUs and unloads the library. Reports failures in
// GpuReport::problem; never throws.
GpuReport ask_nvml(const std::string& library);

}  // namespace am::launch
