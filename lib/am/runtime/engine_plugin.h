// Loads libautomesh_cuda.so, where the NCCL engine lives, so that a CPU build links no CUDA.
//
// The plugin exports one C symbol, kCudaPluginSymbol, of type CudaEngineFactory. It is built by the
// same build as libautomesh and checked to be of the same version.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

inline constexpr const char* kCudaPluginFile = "libautomesh_cuda.so";
inline constexpr const char* kCudaPluginSymbol = "am_cuda_plugin";

// What the plugin exports: `extern "C" const CudaPlugin* am_cuda_plugin();`
struct CudaPlugin {
  const char* version;       // AM_VERSION of the build
  const char* nccl_version;  // that it was compiled with, e.g. "2.28.3"
  // Throws std::exception: no GPU for this local rank.
  std::shared_ptr<Engine> (*make_nccl_engine)(const launch::RankEnvironment& here);
};

// Looks beside libautomesh.so, then where the dynamic linker looks. Loaded once a process and never
// unloaded. Throws Error(kRuntime): no such plugin, a library that it needs is missing, another
// version.
const CudaPlugin& load_cuda_plugin();

}  // namespace am::runtime
