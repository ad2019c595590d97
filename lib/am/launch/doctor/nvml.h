// This machine's NVIDIA GPUs, asked from the driver's own library; no CUDA is needed or started.
//
//   const GpuReport gpus = ask_nvml("libnvidia-ml.so.1");
//   if (!gpus.problem.empty()) ...     // no driver here
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace am::launch {

struct Gpu {
  std::string name;  // "NVIDIA H100 80GB HBM3"
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  int compute_major = 0;  // 9 for Hopper, 10 for Blackwell; 0: not known
};

struct GpuReport {
  std::string problem;  // why there is no answer; empty: there is one
  std::string driver_version;
  std::vector<Gpu> gpus;  // by the driver's index
};

// Loads the library, asks, and unloads it. Never throws.
GpuReport ask_nvml(const std::string& library);

}  // namespace am::launch
