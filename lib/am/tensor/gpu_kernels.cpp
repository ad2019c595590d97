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

std::atomic<const GpuKernels*>& for_host() {
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
  const GpuKernels* kernels = nullptr;
  if (x.is_cuda()) kernels = registered();
  if (x.device().is_cpu()) kernels = for_host();
  const at::ScalarType dtype = x.scalar_type();
  const bool runs = (dtype == at::kFloat || dtype == at::kBFloat16) && !turned_off();
  return runs ? kernels : nullptr;
}

void register_gpu_kernels(const GpuKernels& kernels) { registered() = &kernels; }

void use_on_host(const GpuKernels* kernels) { for_host() = kernels; }

}  // namespace am::tensor
