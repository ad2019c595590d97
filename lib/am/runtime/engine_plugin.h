// Loads libautomesh_cuda.so, which contains the NCCL engine and selects GPUs, so that a CPU build
// links no CUDA libraries.
//
// The plugin exports one C symbol, kCudaPluginSymbol, a function that returns a CudaPlugin. It is
// built together with libautomesh, and its version is checked.
//
// Note [Load CUDA first]: ATen checks once, at the first use of any CUDA function, whether
// libtorch_cuda is loaded, and keeps the result. A world must therefore be created before any
// tensor that may be on a GPU, and nothing before it may query ATen about CUDA.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "am/launch/environment/gpu_driver.h"
#include "am/runtime/engine.h"

namespace am::runtime {

inline constexpr const char* kCudaPluginFile = "libautomesh_cuda.so";
inline constexpr const char* kCudaPluginSymbol = "am_cuda_plugin";

// The plugin's export: `extern "C" const CudaPlugin* am_cuda_plugin();`
struct CudaPlugin {
  const char* version;       // AM_VERSION of the build
  const char* nccl_version;  // NCCL version that it was compiled with, e.g. "2.28.9"
  // Throws std::exception: no GPU for this local rank, or an NCCL other than libtorch's.
  std::shared_ptr<Engine> (*make_nccl_engine)(const launch::RankEnvironment& here);
  // Returns a GPU that several ranks may use; see am/cuda/gpu.h. Throws std::exception if there is
  // none.
  c10::Device (*share_gpu)(const launch::RankEnvironment& here);
};

// Searches beside libautomesh.so, then the dynamic linker's paths. Loads the plugin once per
// process and never unloads it. Throws Error(kRuntime): no plugin, a missing library, or a
// different version.
const CudaPlugin& load_cuda_plugin();

using launch::CudaProblem;

// Returns nothing if NCCL can run. Without a GPU, only checks for the driver; with one, loads the
// plugin.
std::optional<CudaProblem> why_no_cuda();

// Returns the default backend: "nccl" if there is a GPU that this build can use, otherwise "gloo".
std::string default_backend();

// Returns the text for --version: "nccl 2.28.9 (plugin)" with the loaded NCCL's version, or "nccl
// 2.30.7 (plugin built with 2.28.9)" if it differs from the plugin's. If no NCCL can be loaded, the
// plugin's version. "nccl: no plugin" if none is installed.
std::string nccl_version_text();

}  // namespace am::runtime
