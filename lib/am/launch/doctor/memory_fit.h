// Checks whether an allocation fits this machine's memory before it is made: once memory runs out,
// the kernel's out-of-memory killer may end any process.
//
//   if (const auto shortage = memory_shortage(wanted, memory_of_machine())) refuse(*shortage);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace am::launch {

// Size of a memory or file system and the free part of it, in bytes.
struct MemoryInfo {
  int64_t total = 0;
  int64_t available = 0;
};

// Resident memory of a rank before it has a model: libtorch and the connections.
inline constexpr int64_t kRankBytes = int64_t{200} << 20;

// Returns the memory of the machine, or of the most restrictive control group of this process. File
// caches that the kernel can drop count as available. `root` is the folder that contains proc/ and
// sys/.
MemoryInfo memory_of_machine(const std::filesystem::path& root = "/");

// Returns a description of the shortage, for example "takes 29.9 GiB of memory, but only 11.2 GiB
// of 22.5 GiB are available here". Returns nothing if `wanted` bytes fit, or if the machine's
// memory is unknown.
std::optional<std::string> memory_shortage(int64_t wanted, const MemoryInfo& memory);

}  // namespace am::launch
