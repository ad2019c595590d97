// Loads the plugin libautomesh_cuda.so, which contains all code that needs CUDA, for example the
// NCCL engine. libautomesh itself links no CUDA libraries.
//
// The plugin exports one C function, named kCudaPluginSymbol, which returns a CudaPlugin. The
// plugin is built together with libautomesh; load_cuda_plugin() requires that their versions are
// equal.
//
// Note [Load CUDA first]: ATen checks once, at the first use of any CUDA function, whether
// libtorch_cuda is loaded, and keeps the result. Creating a world whose backend uses GPUs loads
// this plugin, and the plugin loads libtorch_cuda. A program must therefore create its world before
// any tensor that may be on a GPU, and must not query ATen about CUDA before.
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

// Returns the plugin, which is loaded once per process and never unloaded. Searches the folder of
// libautomesh (of the program, if it contains libautomesh), then the dynamic linker's paths. Throws
// Error(kRuntime) if there is no plugin, if a library that it needs is missing, or if its version
// differs from libautomesh's.
const CudaPlugin& load_cuda_plugin();

// Returns the name that the driver reports for a CUDA device; empty for other devices. Throws
// Error(kRuntime) like load_cuda_plugin().
std::string gpu_name(c10::Device device);

using launch::CudaProblem;

// Returns why this process cannot use GPUs: the driver reports no GPU, or the plugin cannot be
// loaded. Returns nothing if GPUs can be used. Loads the plugin only if the driver reports a GPU.
std::optional<CudaProblem> why_no_cuda();

// Returns the default backend: "nccl" if there is a GPU that this build can use, otherwise "gloo".
std::string default_backend();

// Returns the text about NCCL for --version:
//
//   "nccl 2.28.9 (plugin)"                    the plugin was built with this version, and this
//                                             version or no NCCL is loaded
//   "nccl 2.30.7 (plugin built with 2.28.9)"  another version is loaded
//   "nccl: no plugin"                         there is no plugin beside libautomesh
std::string nccl_version_text();

}  // namespace am::runtime
