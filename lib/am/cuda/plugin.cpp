// The exported function of libautomesh_cuda.so, the CUDA plugin; see am/runtime/engine_plugin.h.
#include <nccl.h>

#include "am/cuda/compiled_kernels.h"
#include "am/cuda/gpu.h"
#include "am/cuda/memory_history.h"
#include "am/cuda/nccl_engine.h"
#include "am/runtime/engine_plugin.h"

#define AM_TEXT_OF(value) #value
#define AM_TEXT(value) AM_TEXT_OF(value)

extern "C" const am::runtime::CudaPlugin* am_cuda_plugin();

const am::runtime::CudaPlugin* am_cuda_plugin() {
  static constexpr am::runtime::CudaPlugin kPlugin = {
      .version = AM_VERSION,
      .nccl_version = AM_TEXT(NCCL_MAJOR) "." AM_TEXT(NCCL_MINOR) "." AM_TEXT(NCCL_PATCH),
      .make_nccl_engine = am::cuda::make_nccl_engine,
      .share_gpu = am::cuda::share_gpu,
      .gpu_name = am::cuda::gpu_name,
  };
  am::tensor::register_gpu_kernels(am::cuda::compiled_kernels());
  am::tensor::register_memory_history(am::cuda::memory_history());
  return &kPlugin;
}
