#include "am/nn/autocast.h"

#include <ATen/autocast_mode.h>

namespace am::nn {

namespace {

// The meta device has no autocast: there operators keep their inputs' dtypes.
bool has_autocast(c10::DeviceType device) { return at::autocast::is_autocast_available(device); }

}  // namespace

Autocast current_autocast(c10::DeviceType device) {
  if (!has_autocast(device) || !at::autocast::is_autocast_enabled(device)) return {device, {}};
  return {device, at::autocast::get_autocast_dtype(device)};
}

AutocastScope::AutocastScope(const Autocast& autocast)
    : device_(has_autocast(autocast.device) ? autocast.device : c10::DeviceType::CPU),
      enabled_before_(at::autocast::is_autocast_enabled(device_)),
      cached_before_(at::autocast::is_autocast_cache_enabled()),
      dtype_before_(at::autocast::get_autocast_dtype(device_)) {
  if (!has_autocast(autocast.device)) return;
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
