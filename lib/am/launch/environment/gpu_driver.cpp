#include "am/launch/environment/gpu_driver.h"

#include <dlfcn.h>

#include <cstdlib>

#include "am/base/text.h"

namespace am::launch {

namespace {

// The used part of the driver's C interface. Its functions return a CUresult, an int that is 0 on
// success.
constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
using Init = int (*)(unsigned int flags);
using DeviceGetCount = int (*)(int* count);
using GetErrorString = int (*)(int error, const char** text);

template <typename Function>
Function find(void* library, const char* symbol) {
  return reinterpret_cast<Function>(::dlsym(library, symbol));
}

std::string no_gpu() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return cat("the NVIDIA driver shows this process no GPU",
             visible == nullptr ? "" : cat(" (CUDA_VISIBLE_DEVICES=\"", visible, "\")"));
}

std::string driver_error(void* driver, int error) {
  if (error == kNoDevice) return no_gpu();
  const char* text = nullptr;
  const auto describe = find<GetErrorString>(driver, "cuGetErrorString");
  if (describe != nullptr) describe(error, &text);
  return cat("the NVIDIA driver does not start: error ", error, text == nullptr ? "" : ", ",
             text == nullptr ? "" : text);
}

VisibleGpus ask() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return {0, "this machine has no NVIDIA driver (libcuda.so.1)"};
  const auto init = find<Init>(driver, "cuInit");
  const auto device_count = find<DeviceGetCount>(driver, "cuDeviceGetCount");
  if (init == nullptr || device_count == nullptr) {
    return {0, "libcuda.so.1 is not NVIDIA's driver"};
  }
  int count = 0;
  if (const int error = init(0)) return {0, driver_error(driver, error)};
  if (const int error = device_count(&count)) return {0, driver_error(driver, error)};
  return {count, count > 0 ? "" : no_gpu()};
}

}  // namespace

const VisibleGpus& visible_gpus() {
  static const VisibleGpus gpus = ask();
  return gpus;
}

std::optional<CudaProblem> why_no_gpu() {
  const VisibleGpus& gpus = visible_gpus();
  if (gpus.count > 0) return std::nullopt;
  return CudaProblem{gpus.problem, kUseGloo};
}

}  // namespace am::launch
