#include "am/observe/process_memory.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "am/base/text.h"

namespace am::observe {
namespace {

// A line such as "VmHWM:     12345 kB".
int64_t status_bytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (!starts_with(line, field)) continue;
    return 1024 * std::strtoll(line.c_str() + field.size(), nullptr, 10);
  }
  return 0;
}

}  // namespace

int64_t resident_bytes() { return status_bytes("VmRSS:"); }
int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

}  // namespace am::observe
