#include "am/cuda/gpu.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/cuda/compiled_kernels.h"
#include "am/launch/environment/nccl.h"
#include "am/runtime/near_cores.h"

namespace am::cuda {

namespace {

int64_t count_gpus() {
  // device_count() is never negative, so the cast does not change the count.
  return static_cast<unsigned char>(c10::cuda::device_count());
}

[[noreturn]] void refuse(const launch::RankEnvironment& here, int64_t count,
                         const std::string& hint) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  throw Error(ErrorKind::kRuntime,
              cat("rank ", here.rank, " has local rank ", here.local_rank, ", but it sees ", count,
                  count == 1 ? " GPU" : " GPUs",
                  visible == nullptr ? "" : cat(" (CUDA_VISIBLE_DEVICES=\"", visible, "\")")),
              hint);
}

// Sets the mode of torch.cuda.set_sync_debug_mode from the environment variable AM_CUDA_SYNC_DEBUG.
// With "warn", each call that synchronizes the host with the GPU causes a warning; with "error", an
// error.
void set_sync_debug_mode() {
  const char* mode = std::getenv("AM_CUDA_SYNC_DEBUG");
  if (mode == nullptr) return;
  const std::string_view wanted = mode;
  using c10::cuda::SyncDebugMode;
  if (wanted == "warn") c10::cuda::warning_state().set_sync_debug_mode(SyncDebugMode::L_WARN);
  if (wanted == "error") c10::cuda::warning_state().set_sync_debug_mode(SyncDebugMode::L_ERROR);
}

std::string pci_address(c10::DeviceIndex gpu) {
  const cudaDeviceProp& properties = *at::cuda::getDeviceProperties(gpu);
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.0", properties.pciDomainID,
                properties.pciBusID, properties.pciDeviceID);
  return text.data();
}

c10::Device opened(int64_t index) {
  const c10::Device gpu(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  at::globalContext().lazyInitDevice(c10::kCUDA);
  c10::cuda::set_device(gpu.index());
  set_sync_debug_mode();
  runtime::keep_near(pci_address(gpu.index()));
  start_compiling(gpu);
  return gpu;
}

}  // namespace

c10::Device own_gpu(const launch::RankEnvironment& here) {
  const int64_t count = count_gpus();
  if (here.local_rank >= count * launch::ranks_per_gpu()) {
    refuse(here, count,
           "start one rank per GPU, and let every rank see all GPUs of its machine; or let ranks "
           "share GPUs: backend = \"cuda:gloo\", or am-run --ranks-per-gpu with NCCL 2.30; or use "
           "backend = \"gloo\"");
  }
  return opened(here.local_rank % count);
}

c10::Device share_gpu(const launch::RankEnvironment& here) {
  const int64_t count = count_gpus();
  if (count == 0) refuse(here, count, "use backend = \"gloo\"");
  return opened(here.local_rank % count);
}

std::string gpu_name(c10::Device gpu) { return at::cuda::getDeviceProperties(gpu.index())->name; }

}  // namespace am::cuda
