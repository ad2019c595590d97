#include "am/runtime/device_error.h"

#include <c10/core/impl/VirtualGuardImpl.h>
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

// Returns whether the error is a CUDA error that c10d reports for NCCL, or an error of cuBLAS or
// cuDNN, which fail after the GPU has failed. Decides by the type and the text of the error.
bool speaks_of_cuda(const std::exception& error) {
  const std::string_view text = error.what();
  if (dynamic_cast<const c10::DistError*>(&error) != nullptr) {
    return text.find("CUDA error") != std::string_view::npos ||
           text.find("unhandled cuda error") != std::string_view::npos;
  }
  return dynamic_cast<const c10::Error*>(&error) != nullptr &&
         (text.starts_with("CUDA error: ") || text.starts_with("cuDNN"));
}

// Returns the error that the CUDA runtime reports at every call after a kernel has failed: the
// first line of its text. Returns an empty string if the GPU works.
std::string kept_error(c10::Device device) {
  if (!c10::impl::hasDeviceGuardImpl(device.type())) return {};
  try {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  } catch (const std::exception& error) {
    return first_line(error);
  }
  return {};
}

}  // namespace

// Adds "in PLACE" to the message of a failed allocation, which surfaces where the memory is
// requested. For any other error, adds "seen in PLACE", because the error may have occurred
// earlier.
DeviceError DeviceError::in(const std::string& place) const {
  if (placed_ || place.empty()) return *this;
  DeviceError placed(cat(what(), out_of_memory_ ? "; in " : "; seen in ", place), out_of_memory_,
                     hint());
  placed.placed_ = true;
  return placed;
}

std::optional<DeviceError> device_error(const std::exception& error, c10::Device device) {
  if (const auto* own = dynamic_cast<const DeviceError*>(&error)) return *own;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return DeviceError(cat(device_name(device), " is out of memory: ", first_line(error)),
                       /*out_of_memory=*/true, "am-plan memory shows what uses the memory");
  }
  if (dynamic_cast<const c10::AcceleratorError*>(&error) == nullptr && !speaks_of_cuda(error)) {
    return std::nullopt;
  }
  std::string what = first_line(error);
  if (dynamic_cast<const c10::AcceleratorError*>(&error) == nullptr) {
    if (const std::string kept = kept_error(device); !kept.empty()) {
      what = cat(kept, "; surfaced as ", what);
    }
  }
  return DeviceError(cat(device_name(device), " failed: ", what),
                     /*out_of_memory=*/false,
                     "with CUDA_LAUNCH_BLOCKING=1 in the environment the error surfaces at the "
                     "kernel that causes it");
}

}  // namespace am::runtime
