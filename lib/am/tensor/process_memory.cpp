#include "am/tensor/process_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "am/base/text.h"

namespace am::tensor {
namespace {

// Returns the number of bytes in the line of /proc/self/status that begins with `field`, for
// example "VmHWM: 12345 kB"; 0 if the file has no line for this field.
int64_t status_bytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (!starts_with(line, field)) continue;
    return 1024 * std::strtoll(line.c_str() + field.size(), nullptr, 10);
  }
  return 0;
}

constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

c10::CachingDeviceAllocator::DeviceStats device_stats(c10::Device device) {
  return c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
}

}  // namespace

int64_t resident_bytes() { return status_bytes("VmRSS:"); }
int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

int64_t peak_memory_bytes(c10::Device device) {
  if (device.is_cpu()) return peak_resident_bytes();
  return device_stats(device).allocated_bytes.at(kAll).peak;
}

int64_t peak_reserved_bytes(c10::Device device) {
  return device.is_cpu() ? 0 : device_stats(device).reserved_bytes.at(kAll).peak;
}

}  // namespace am::tensor
