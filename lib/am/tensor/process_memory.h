// Memory use of this process: of the host, from /proc/self/status, and of a GPU.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace am::tensor {

// Resident bytes now (VmRSS) and their peak (VmHWM); 0 if the kernel does not report them.
int64_t resident_bytes();
int64_t peak_resident_bytes();

// Peak bytes so far: on a GPU those allocated by its allocator, on the host peak_resident_bytes().
int64_t peak_memory_bytes(c10::Device device);
// Peak bytes that a GPU's allocator has reserved from the driver (torch's max_memory_reserved); 0
// on the host.
int64_t peak_reserved_bytes(c10::Device device);

}  // namespace am::tensor
