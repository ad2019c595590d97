#include "am/nn/autocast.h"

#include <ATen/autocast_mode.h>

namespace am::nn {

namespace {

c10::DeviceType known(c10::DeviceType device) {
  return at::autocast::is_autocast_available(device) ? device : c10::DeviceType::CPU;
}

}  // namespace

Autocast current_autocast(c10::DeviceType device) {
  device = known(device);
  if (!at::autocast::is_autocast_enabled(device)) return {device, {}};
  return {device, at::autocast::get_autocast_dtype(device)};
}

AutocastScope::AutocastScope(const Autocast& autocast)
    : device_(known(autocast.device)),
      enabled_before_(at::autocast::is_autocast_enabled(device_)),
      cached_before_(at::autocast::is_autocast_cache_enabled()),
      dtype_before_(at::autocast::get_autocast_dtype(device_)) {
  at::autocast::set_autocast_enabled(device_, autocast.dtype.has_value());
  if (autocast.dtype) at::autocast::set_autocast_dtype(device_, *autocast.dtype);
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastScope::~AutocastScope() {
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
  at::autocast::set_autocast_cache_enabled(cached_before_);
}

}  // namespace am::nn
