// Asks NVIDIA's driver for the GPUs that this process may use. Does not load libtorch's CUDA
// libraries, so a query is fast and works if these libraries are missing.
#pragma once

#include <optional>
#include <string>

namespace am::launch {

// Help text of error messages for a machine without a usable GPU.
inline constexpr const char* kUseGloo = "use backend = \"gloo\"";

struct VisibleGpus {
  int count = 0;
  // Why the count is 0, for example "this machine has no NVIDIA driver (libcuda.so.1)".
  std::string problem;
};

// Why this process cannot use GPUs, and a remedy. For example, the driver shows no GPU, or
// automesh's CUDA plugin (runtime/engine_plugin.h) cannot be loaded.
struct CudaProblem {
  std::string what;  // for example "this machine has no NVIDIA driver (libcuda.so.1)"
  std::string help;
};

// Returns the number of GPUs that the driver shows to this process. Only the first call asks the
// driver, under the CUDA_VISIBLE_DEVICES of that time; later calls return the result of the first.
// Never throws.
const VisibleGpus& visible_gpus();
// Returns why the driver shows no GPU; nothing if it shows a GPU. NCCL may still be unable to run
// on that GPU.
std::optional<CudaProblem> why_no_gpu();

}  // namespace am::launch
