// Loads the plugin libautomesh_cuda.so, which contains all code that needs CUDA, for example the
// NCCL engine. libautomesh itself links no CUDA libraries.
//
// The plugin exports one C symbol, kCudaPluginSymbol, a function that returns a CudaPlugin. The
// plugin is built together with libautomesh, and its version is checked.
//
// Note [Load CUDA first]: ATen checks once, at the first use of any CUDA function, whether
// libtorch_cuda is loaded, and keeps the result. Creating a world loads this plugin, and with it
// libtorch_cuda. A world must therefore be created before any tensor that may be on a GPU, and
// nothing before it may query ATen about CUDA.
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
  const char* version;       // AM_VERSION of the plugin's build
  const char* nccl_version;  // NCCL version that the plugin was compiled with, for example "2.28.9"
  // Throws std::exception if there is no GPU for this local rank, or if libtorch was built with
  // another version of NCCL than the plugin.
  std::shared_ptr<Engine> (*make_nccl_engine)(const launch::RankEnvironment& here);
  // Returns this rank's GPU, which other ranks may use too; see am/cuda/gpu.h. Throws
  // std::exception if there is no GPU.
  c10::Device (*share_gpu)(const launch::RankEnvironment& here);
  // Returns the name that the driver reports for a GPU, for example "NVIDIA H200".
  std::string (*gpu_name)(c10::Device gpu);
};

// Returns the plugin, which is loaded once per process and never unloaded. Searches beside
// libautomesh.so, then in the dynamic linker's paths. Throws Error(kRuntime) if there is no plugin,
// if a library is missing, or if the version differs.
const CudaPlugin& load_cuda_plugin();

// Returns the name that the driver reports for a CUDA device; empty for other devices. Throws
// Error(kRuntime) like load_cuda_plugin().
std::string gpu_name(c10::Device device);

using launch::CudaProblem;

// Returns why NCCL cannot run; nothing if NCCL can run. Loads the plugin if the machine has a GPU;
// otherwise only checks for the GPU driver.
std::optional<CudaProblem> why_no_cuda();

// Returns the default backend: "nccl" if there is a GPU that this build can use, otherwise "gloo".
std::string default_backend();

// Returns the text about NCCL for --version, for example "nccl 2.28.9 (plugin)". The version is
// that of the loaded NCCL. If NCCL cannot be loaded, it is the version with which the plugin was
// built. If both are known and differ, the text is for example "nccl 2.30.7 (plugin built with
// 2.28.9)"; without a plugin, "nccl: no plugin".
std::string nccl_version_text();

}  // namespace am::runtime
