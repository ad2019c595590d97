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

// Whether an error reports one of CUDA's libraries, which only its text shows: NCCL's by c10d, or
// cuBLAS's and cuDNN's, which fail on a GPU that has failed before.
bool speaks_of_cuda(const std::exception& error) {
  const std::string_view text = error.what();
  if (dynamic_cast<const c10::DistError*>(&error) != nullptr) {
    return text.find("CUDA error") != std::string_view::npos ||
           text.find("unhandled cuda error") != std::string_view::npos;
  }
  return dynamic_cast<const c10::Error*>(&error) != nullptr &&
         (text.starts_with("CUDA error: ") || text.starts_with("cuDNN"));
}

// Returns the error that a GPU keeps once a kernel has failed; empty if the GPU works.
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

// An allocation fails in the place that requests it; other errors may have occurred earlier than
// the host sees them.
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
                       /*out_of_memory=*/true, "am-plan memory shows what takes it");
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
                     "with CUDA_LAUNCH_BLOCKING=1 in the environment the error surfaces at its own "
                     "kernel");
}

}  // namespace am::runtime
