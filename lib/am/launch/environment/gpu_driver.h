// Queries NVIDIA's driver for the GPUs that this process may use, without libtorch's CUDA
// libraries: cheap enough for a launcher, and usable when those libraries are missing.
#pragma once

#include <optional>
#include <string>

namespace am::launch {

// Help text of the error message for a machine without a GPU.
inline constexpr const char* kUseGloo = "use backend = \"gloo\"";

struct VisibleGpus {
  int count = 0;
  // Why the count is 0, for example "this machine has no NVIDIA driver (libcuda.so.1)".
  std::string problem;
};

// Why no GPU of this machine can be used (there is none, or NCCL cannot run on it), and a remedy.
struct CudaProblem {
  std::string what;  // for example "this machine has no NVIDIA driver (libcuda.so.1)"
  std::string help;
};

// Queries the driver once per process, under the CUDA_VISIBLE_DEVICES of the first call; later
// calls return the same result. Never throws.
const VisibleGpus& visible_gpus();
// Returns why no GPU can be used; nothing if there is a GPU. A GPU alone does not mean that NCCL
// can run on it.
std::optional<CudaProblem> why_no_gpu();

}  // namespace am::launch
