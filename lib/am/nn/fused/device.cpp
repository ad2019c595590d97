#include "am/nn/fused/device.h"

#include <ATen/ATen.h>

#include <atomic>

namespace am::nn::fused {
namespace {

std::atomic<int>& passing() {
  static std::atomic<int> count = 0;
  return count;
}

bool passes(const at::Tensor& x) {
  return passing() > 0 && x.device().is_cpu() && x.is_floating_point();
}

}  // namespace

bool on_gpu(const at::Tensor& x) { return x.is_cuda() || passes(x); }

bool narrow_on_gpu(const at::Tensor& x) {
  const at::ScalarType dtype = x.scalar_type();
  return passes(x) || (x.is_cuda() && (dtype == at::kBFloat16 || dtype == at::kHalf));
}

// Copies to a GPU through pinned memory, because the host would wait for a copy from pageable
// memory.
at::Tensor uploaded(const at::Tensor& x, const at::Device& device) {
  if (x.device() == device) return x;
  return device.is_cuda() ? x.pin_memory().to(device, /*non_blocking=*/true) : x.to(device);
}

PassForGpu::PassForGpu() { ++passing(); }
PassForGpu::~PassForGpu() { --passing(); }

}  // namespace am::nn::fused
