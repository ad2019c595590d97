// Loads libautomesh_cuda.so, where the NCCL engine lives and GPUs are chosen, so that a CPU build
// links no CUDA.
//
// The plugin exports one C symbol, kCudaPluginSymbol, of type CudaEngineFactory. It is built by the
// same build as libautomesh and checked to be of the same version.
//
// Note [Load CUDA first]: ATen asks once, at the first use of anything of CUDA's, whether
// libtorch_cuda is there, and keeps the answer. So a world is made before any tensor that might be
// a GPU's; nothing before it may ask ATen about CUDA.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "am/launch/environment/gpu_driver.h"
#include "am/runtime/engine.h"

namespace am::runtime {

inline constexpr const char* kCudaPluginFile = "libautomesh_cuda.so";
inline constexpr const char* kCudaPluginSymbol = "am_cuda_plugin";

// What the plugin exports: `extern "C" const CudaPlugin* am_cuda_plugin();`
struct CudaPlugin {
  const char* version;       // AM_VERSION of the build
  const char* nccl_version;  // that it was compiled with, e.g. "2.28.9"
  // Throws std::exception: no GPU for this local rank, another NCCL than libtorch's.
  std::shared_ptr<Engine> (*make_nccl_engine)(const launch::RankEnvironment& here);
  // A GPU that several ranks may use; see am/cuda/gpu.h. Throws std::exception: there is none.
  c10::Device (*share_gpu)(const launch::RankEnvironment& here);
};

// Looks beside libautomesh.so, then where the dynamic linker looks. Loaded once a process and never
// unloaded. Throws Error(kRuntime): no such plugin, a library that it needs is missing, another
// version.
const CudaPlugin& load_cuda_plugin();

using launch::CudaProblem;

// Nothing: it can run. Without a GPU this is a look for the driver; with one it loads the plugin.
std::optional<CudaProblem> why_no_cuda();

// The backend where nobody names one: "nccl" where a GPU is present that this build can use, else
// "gloo".
std::string default_backend();

// For --version: "nccl 2.28.9 (plugin)" of the NCCL that is loaded, and "nccl 2.30.7 (plugin built
// with 2.28.9)" where it is another one than the plugin's; where none can be loaded the plugin's.
// "nccl: no plugin" where none is installed.
std::string nccl_version_text();

}  // namespace am::runtime
