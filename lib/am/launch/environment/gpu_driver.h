// Asks NVIDIA's driver which GPUs this process may use, without libtorch's CUDA libraries: cheap
// enough for a launcher, and an answer where those libraries are missing.
#pragma once

#include <optional>
#include <string>

namespace am::launch {

// The way out where there is no GPU.
inline constexpr const char* kUseGloo = "use backend = \"gloo\"";

struct VisibleGpus {
  int count = 0;
  // Why there are none: "this machine has no NVIDIA driver (libcuda.so.1)".
  std::string problem;
};

// What keeps NCCL from running here, and what to write or do instead.
struct CudaProblem {
  std::string what;  // "this machine has no NVIDIA driver (libcuda.so.1)"
  std::string help;
};

// CUDA_VISIBLE_DEVICES is honoured as it was at the first call. Never throws.
const VisibleGpus& visible_gpus();
// Nothing: there is a GPU; whether NCCL runs on it takes a look at the plugin.
std::optional<CudaProblem> why_no_gpu();

}  // namespace am::launch
