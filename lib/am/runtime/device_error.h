// Errors of a rank's own GPU.
//
// A GPU runs asynchronously, so an illegal address or a failed device-side assert often surfaces in
// a collective, or in the wait for a collective. An allocation in a collective may fail too. These
// errors belong to this rank; they are not a sign of a lost peer.
#pragma once

#include <c10/core/Device.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "am/base/error.h"

namespace am::runtime {

// An error of kind kRuntime whose message names the GPU.
class DeviceError : public Error {
 public:
  DeviceError(const std::string& message, bool out_of_memory, std::string hint)
      : Error(ErrorKind::kRuntime, message, std::move(hint)), out_of_memory_(out_of_memory) {}

  bool out_of_memory() const { return out_of_memory_; }
  // Returns the error with `place` added to its message. `place` is the part of the step that was
  // running, for example "the backward of model.layers.3". An error that already has a place is
  // returned unchanged.
  DeviceError in(const std::string& place) const;

 private:
  bool out_of_memory_;
  bool placed_ = false;
};

// Returns the DeviceError to throw instead of `error` if `error` is an error of the CUDA runtime,
// of cuBLAS or of cuDNN, a CUDA error that NCCL reports, or a failed allocation on the GPU. Returns
// `error` itself if it is a DeviceError. Returns nothing for any other exception.
std::optional<DeviceError> device_error(const std::exception& error, c10::Device device);

// Returns the result of work(). If work() throws a device error, rethrows it with place() added to
// its message. place() is called only in this case.
template <typename Place, typename Work>
auto with_place(c10::Device device, const Place& place, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    if (const auto own = device_error(error, device)) throw own->in(place());
    throw;
  }
}

}  // namespace am::runtime
