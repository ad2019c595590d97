// A second stream of a device, for copies and collectives that overlap with computation.
//
//   tensor::SideStream copies(device);
//   copies.wait_for_current();                 // until `values` is computed
//   {
//     const tensor::SideStream::Use use(&copies);
//     host.copy_(values, /*non_blocking=*/true);
//   }
//   copies.current_waits();                    // or host_waits()
//
// Memory allocated while a stream is current belongs to that stream: the allocator reuses freed
// memory in the order of the stream's work. If another stream uses memory of the side stream, free
// the memory only after the side stream waits for the other stream. If the side stream uses memory
// of the compute stream, free the memory only after current_waits(). Host and meta devices have no
// streams: work runs in order there, and these functions do nothing.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <optional>

namespace am::tensor {

// Whether the device executes work asynchronously to the host.
inline bool is_asynchronous(c10::Device device) { return !device.is_cpu() && !device.is_meta(); }

// One thread at a time may use a SideStream.
class SideStream {
 public:
  // Gets a stream from the device's pool, with high priority if the device supports priorities.
  explicit SideStream(c10::Device device);

  // wait_for_current(): the side stream waits for all work enqueued on the calling thread's current
  // stream. current_waits() and host_waits(): the current stream, or the host, waits for all work
  // enqueued on the side stream.
  void wait_for_current();
  void current_waits();
  void host_waits() const;

  // Makes `stream` the thread's current stream while the object exists. Null changes nothing.
  class Use {
   public:
    explicit Use(const SideStream* stream) {
      if (stream != nullptr && stream->stream_) guard_.emplace(*stream->stream_);
    }

   private:
    std::optional<c10::StreamGuard> guard_;
  };

 private:
  std::optional<c10::Stream> stream_;
  std::optional<c10::Event>
      current_;                    // event that wait_for_current() records in the current stream
  std::optional<c10::Event> own_;  // event that current_waits() records in the side stream
};

}  // namespace am::tensor
