#include "am/runtime/device_error.h"

#include <c10/util/Exception.h>

#include <string>
#include <string_view>

#include "am/base/first_line.h"
#include "am/base/text.h"

namespace am::runtime {

namespace {

std::string device_name(c10::Device device) {
  return device.is_cuda() ? cat("GPU ", static_cast<int>(device.index())) : device.str();
}

// c10d reports what NCCL met as a text.
bool speaks_of_cuda(const std::exception& error) {
  const std::string_view text = error.what();
  return dynamic_cast<const c10::DistError*>(&error) != nullptr &&
         (text.find("CUDA error") != std::string_view::npos ||
          text.find("unhandled cuda error") != std::string_view::npos);
}

}  // namespace

std::optional<DeviceError> device_error(const std::exception& error, c10::Device device) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return DeviceError(cat(device_name(device), " is out of memory: ", first_line(error)),
                       /*out_of_memory=*/true, "am-plan memory shows what takes it");
  }
  if (dynamic_cast<const c10::AcceleratorError*>(&error) == nullptr && !speaks_of_cuda(error)) {
    return std::nullopt;
  }
  return DeviceError(cat(device_name(device), " failed: ", first_line(error)),
                     /*out_of_memory=*/false,
                     "with CUDA_LAUNCH_BLOCKING=1 in the environment the error surfaces at its own "
                     "kernel");
}

}  // namespace am::runtime
