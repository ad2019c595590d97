// Checks before a large allocation whether it fits into this machine's memory. Once memory runs
// out, the kernel's out-of-memory killer may end any process.
//
//   if (const auto shortage = memory_shortage(wanted, memory_of_machine())) refuse(*shortage);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace am::launch {

// Size of a memory or of a file system, and the available part, in bytes.
struct MemoryInfo {
  int64_t total = 0;
  int64_t available = 0;
};

// Resident memory of a rank without its model, in bytes: libtorch and the connections.
inline constexpr int64_t kRankBytes = int64_t{200} << 20;

// Returns the memory of the machine, reduced to the limits of this process's control groups. File
// caches that the kernel can drop count as available. The fields are 0 if the memory is unknown.
// `root` is the folder that contains proc/ and sys/.
MemoryInfo memory_of_machine(const std::filesystem::path& root = "/");

// Returns a description of the shortage, for example "takes 29.9 GiB of memory, but only 11.2 GiB
// of 22.5 GiB are available here". Returns nothing if `wanted` bytes fit, or if the machine's
// memory is unknown.
std::optional<std::string> memory_shortage(int64_t wanted, const MemoryInfo& memory);

}  // namespace am::launch
