// Asks NVIDIA's driver which GPUs this process may use, without libtorch's CUDA libraries: cheap
// enough for a launcher, and an answer where those libraries are missing.
#pragma once

#include <string>

namespace am::runtime {

struct VisibleGpus {
  int count = 0;
  // Why there are none: "this machine has no NVIDIA driver (libcuda.so.1)".
  std::string problem;
};

// CUDA_VISIBLE_DEVICES is honoured as it was at the first call. Never throws.
const VisibleGpus& visible_gpus();

}  // namespace am::runtime
