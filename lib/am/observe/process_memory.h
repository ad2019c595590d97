// What this process takes of the machine's memory, from /proc/self/status.
#pragma once

#include <cstdint>

namespace am::observe {

// Bytes resident now (VmRSS) and at most so far (VmHWM); 0 where the kernel does not say.
int64_t resident_bytes();
int64_t peak_resident_bytes();

}  // namespace am::observe
