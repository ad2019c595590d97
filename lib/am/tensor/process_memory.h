// What this process takes of the machine's memory, from /proc/self/status, and of a GPU's.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace am::tensor {

// Bytes resident now (VmRSS) and at most so far (VmHWM); 0 where the kernel does not say.
int64_t resident_bytes();
int64_t peak_resident_bytes();

// At most so far where tensors live: on a GPU what its allocator has given out, on the host
// peak_resident_bytes.
int64_t peak_memory_bytes(c10::Device device);
// At most so far that the allocator of a GPU has taken from the driver (torch's
// max_memory_reserved); 0 on the host.
int64_t peak_reserved_bytes(c10::Device device);

}  // namespace am::tensor
