#include "support/stand_in_streams.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace am::test {

namespace {

using c10::DeviceIndex;
using c10::StreamId;

thread_local DeviceIndex current_index = 0;
thread_local std::array<StreamId, kStandIns> current_streams = {};
thread_local bool unnoted = false;

// The queued copies of each stream, in order.
class Copies {
 public:
  void queue(StreamId stream, std::function<void()> copy) {
    const std::lock_guard lock(mutex_);
    copies_[stream].push_back(std::move(copy));
  }
  // Runs the stream's queued copies. Reentrant, because a finished copy may release the last tensor
  // of a block, whose deleter calls finish().
  void finish(StreamId stream) {
    const std::lock_guard lock(mutex_);
    auto& queue = copies_[stream];
    while (!queue.empty()) {
      const std::function<void()> next = std::move(queue.front());
      queue.pop_front();
      next();
    }
  }
  void finish() {
    const std::lock_guard lock(mutex_);
    for (auto& [stream, queue] : copies_) finish(stream);
  }

 private:
  std::recursive_mutex mutex_;
  std::map<StreamId, std::deque<std::function<void()>>> copies_;
};

struct Device {
  Copies copies;
  StreamOrder order;
  std::atomic<StreamId> next_of_pool{0};
  std::atomic<size_t> next_own{0};
};

Device& device_at(DeviceIndex index) {
  // Never destroyed, because tensors may be freed at exit.
  static auto* const devices = new std::array<Device, kStandIns>();
  return devices->at(static_cast<size_t>(index));
}

StreamId current_id(c10::Device device) {
  return current_streams.at(static_cast<size_t>(device.index()));
}

constexpr StreamId kPool = 32;  // number of streams that c10 hands out, besides the default one

struct Event {
  DeviceIndex device = 0;
  StreamId stream = 0;
  StreamOrder::Clock clock;
  std::chrono::steady_clock::time_point time;
};

void finish(const Event& event) { device_at(event.device).copies.finish(event.stream); }

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kStandIn; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = current_stand_in();
    uncheckedSetDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return current_stand_in(); }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current_index = device.index();
  }
  DeviceIndex deviceCount() const noexcept override { return kStandIns; }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.has_index() ? device : current_stand_in());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device.has_index() ? device : current_stand_in());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    const c10::Device of = device.has_index() ? device : current_stand_in();
    const StreamId next = device_at(of.index()).next_of_pool++ % kPool;
    return c10::Stream(c10::Stream::UNSAFE, of, 1 + next);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    StreamId& current = current_streams.at(static_cast<size_t>(stream.device_index()));
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), std::exchange(current, stream.id()));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Device& device = device_at(stream.device_index());
    device.copies.finish(stream.id());
    device.order.host_waits(device.order.record(static_cast<size_t>(stream.id())));
  }

  void destroyEvent(void* event, DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void record(void** event, const c10::Stream& stream, DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new Event();
    auto& recorded = *static_cast<Event*>(*event);
    recorded.device = stream.device_index();
    recorded.stream = stream.id();
    recorded.clock = device_at(recorded.device).order.record(static_cast<size_t>(stream.id()));
    recorded.time = std::chrono::steady_clock::now();
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    finish(*static_cast<Event*>(event));
    device_at(stream.device_index())
        .order.wait(static_cast<size_t>(stream.id()), static_cast<Event*>(event)->clock);
  }
  // Returns true only if the host has waited for the event's work. Otherwise a GPU might not have
  // finished that work yet.
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const auto& recorded = *static_cast<Event*>(event);
    return device_at(recorded.device).order.host_knows(recorded.clock);
  }
  void synchronizeEvent(void* event) const override {
    const auto& recorded = *static_cast<Event*>(event);
    finish(recorded);
    device_at(recorded.device).order.host_waits(recorded.clock);
  }
  double elapsedTime(void* from, void* to, DeviceIndex /*device*/) const override {
    using Milliseconds = std::chrono::duration<double, std::milli>;
    return Milliseconds(static_cast<Event*>(to)->time - static_cast<Event*>(from)->time).count();
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

c10::Device current_stand_in() { return {kStandIn, current_index}; }

c10::Stream current_stream(c10::Device device) {
  return c10::Stream(c10::Stream::UNSAFE, device, current_id(device));
}

StreamOrder& stream_order(c10::Device device) { return device_at(device.index()).order; }

size_t make_stream(c10::Device device) {
  return 1 + static_cast<size_t>(kPool) + device_at(device.index()).next_own++;
}

void queue_copy(c10::Device device, std::function<void()> copy) {
  device_at(device.index()).copies.queue(current_id(device), std::move(copy));
}

void finish_copies(c10::Device device) {
  device_at(device.index()).copies.finish(current_id(device));
}

void finish_all_copies(c10::Device device) { device_at(device.index()).copies.finish(); }

void wait_for_stream(c10::Device device) {
  if (!unnoted) Guard().synchronizeStream(current_stream(device));
}

void note_work(const std::string& name, const std::vector<at::Tensor>& read,
               const std::vector<at::Tensor>& written) {
  if (unnoted) return;
  std::optional<c10::Device> device;
  const auto addresses = [&](const std::vector<at::Tensor>& tensors) {
    std::vector<const void*> found;
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.defined() || tensor.device().type() != kStandIn || tensor.numel() == 0) continue;
      device = tensor.device();
      found.push_back(tensor.const_data_ptr());
    }
    return found;
  };
  const auto of_read = addresses(read);
  const auto of_written = addresses(written);
  if (!device) return;
  stream_order(*device).work(static_cast<size_t>(current_id(*device)), name, of_read, of_written);
}

Unnoted::Unnoted() : before_(std::exchange(unnoted, true)) {}
Unnoted::~Unnoted() { unnoted = before_; }

}  // namespace am::test
