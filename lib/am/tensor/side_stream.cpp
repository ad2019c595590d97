#include "am/tensor/side_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace am::tensor {

namespace {

c10::Stream current_stream(const c10::Stream& of) {
  return c10::impl::VirtualGuardImpl(of.device_type()).getStream(of.device());
}

}  // namespace

SideStream::SideStream(c10::Device device) {
  if (!is_asynchronous(device)) return;
  const c10::impl::VirtualGuardImpl devices(device.type());
  stream_ = devices.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
  current_.emplace(device.type());
  own_.emplace(device.type());
}

void SideStream::wait_for_current() {
  if (!stream_) return;
  current_->record(current_stream(*stream_));
  current_->block(*stream_);
}

void SideStream::current_waits() {
  if (!stream_) return;
  own_->record(*stream_);
  own_->block(current_stream(*stream_));
}

void SideStream::host_waits() const {
  if (stream_) stream_->synchronize();
}

}  // namespace am::tensor
