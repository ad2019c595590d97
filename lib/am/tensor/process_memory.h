// Memory use of this process: host memory from /proc/self/status, GPU memory from torch's
// allocator.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace am::tensor {

// Return the process's resident bytes (VmRSS) and their peak (VmHWM), or 0 if the kernel does not
// report them.
int64_t resident_bytes();
int64_t peak_resident_bytes();

// Returns the peak bytes so far: for a GPU, the bytes that its allocator has allocated to tensors
// (torch's max_memory_allocated); for the host, peak_resident_bytes().
int64_t peak_memory_bytes(c10::Device device);
// Returns the peak bytes that a GPU's allocator has reserved from the driver (torch's
// max_memory_reserved), or 0 for the host.
int64_t peak_reserved_bytes(c10::Device device);

}  // namespace am::tensor
