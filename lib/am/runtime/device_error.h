// Errors of a rank's own GPU.
//
// A GPU runs behind the host: an illegal address, a failed device-side assert or an allocation that
// found no memory often surfaces in a collective, or in the wait for one. It is this rank's error
// all the same, and never a lost peer.
#pragma once

#include <c10/core/Device.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "am/base/error.h"

namespace am::runtime {

// An error of kind kRuntime that names the GPU.
class DeviceError : public Error {
 public:
  DeviceError(const std::string& message, bool out_of_memory, std::string hint)
      : Error(ErrorKind::kRuntime, message, std::move(hint)), out_of_memory_(out_of_memory) {}

  bool out_of_memory() const { return out_of_memory_; }

 private:
  bool out_of_memory_;
};

// The error to throw in place of an exception of the CUDA runtime or of the GPU's allocator.
// Nothing for any other exception.
std::optional<DeviceError> device_error(const std::exception& error, c10::Device device);

}  // namespace am::runtime
