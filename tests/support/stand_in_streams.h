// Streams and events of the stand-in devices, behind c10's device-generic interface.
//
// Operators run immediately on any stream; stream_order.h checks whether a GPU would have been
// required to run them in this order. Non-blocking copies between host and device are queued on
// their stream until the next work of that stream, or until a stream or the host waits for it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>
#include <string>
#include <vector>

#include "support/stream_order.h"

namespace am::test {

constexpr c10::DeviceType kStandIn = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kStandIns = 8;

// Returns the calling thread's current device.
c10::Device current_stand_in();
c10::Stream current_stream(c10::Device device);

StreamOrder& stream_order(c10::Device device);
// Returns a StreamOrder number for a stream unknown to c10, as NCCL's are.
size_t make_stream(c10::Device device);

// Queue a copy on the device's current stream; run that stream's, or all, queued copies.
void queue_copy(c10::Device device, std::function<void()> copy);
void finish_copies(c10::Device device);
void finish_all_copies(c10::Device device);

// Makes the host wait for the device's current stream.
void wait_for_stream(c10::Device device);

// Notes work on the tensors, on the current stream of their device. Host tensors are ignored.
void note_work(const std::string& name, const std::vector<at::Tensor>& read,
               const std::vector<at::Tensor>& written);

// While one exists, this thread's work is not noted, e.g. operators within one noted operation.
class Unnoted {
 public:
  Unnoted();
  ~Unnoted();
  Unnoted(const Unnoted&) = delete;
  Unnoted& operator=(const Unnoted&) = delete;

 private:
  bool before_;
};

}  // namespace am::test
