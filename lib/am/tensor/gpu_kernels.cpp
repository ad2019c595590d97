#include "am/tensor/gpu_kernels.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace am::tensor {
namespace {

std::atomic<const GpuKernels*>& registered() {
  static std::atomic<const GpuKernels*> kernels = nullptr;
  return kernels;
}

bool turned_off() {
  static const bool off = [] {
    const char* value = std::getenv("AM_GPU_KERNELS");
    return value != nullptr && std::string_view(value) == "0";
  }();
  return off;
}

}  // namespace

const GpuKernels* gpu_kernels(const at::Tensor& x) {
  const at::ScalarType dtype = x.scalar_type();
  if (!x.is_cuda() || (dtype != at::kFloat && dtype != at::kBFloat16) || turned_off()) {
    return nullptr;
  }
  return registered();
}

void register_gpu_kernels(const GpuKernels& kernels) { registered() = &kernels; }

}  // namespace am::tensor
