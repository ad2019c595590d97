// Streams and events of the stand-in devices, as c10's device-generic interface requires them.
//
// Operators run immediately, on any stream; stream_order.h checks whether a GPU would have to
// execute them in the same order. A non-blocking copy between host and device is queued on the
// current stream. The copy runs before the next work of this stream, or when another stream or the
// host waits for this stream.
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
// Creates a stream that c10 does not know, like NCCL's streams. Returns its number in the device's
// StreamOrder.
size_t make_stream(c10::Device device);

// queue_copy() queues a copy on the device's current stream. finish_copies() runs the queued copies
// of that stream, and finish_all_copies() those of all streams of the device.
void queue_copy(c10::Device device, std::function<void()> copy);
void finish_copies(c10::Device device);
void finish_all_copies(c10::Device device);

// Makes the host wait for the device's current stream.
void wait_for_stream(c10::Device device);

// Records work on the tensors in StreamOrder, on the current stream of their device. Host tensors
// are ignored.
void note_work(const std::string& name, const std::vector<at::Tensor>& read,
               const std::vector<at::Tensor>& written);

// While an Unnoted exists, the work of its thread is not recorded in StreamOrder, because the work
// is part of an operation that is recorded as a whole.
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
