// Whether what is about to be allocated fits this machine, asked before it is: afterwards the
// kernel ends whichever process it likes.
//
//   if (const auto shortage = memory_shortage(wanted, memory_of_machine())) refuse(*shortage);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace am::launch {

// Bytes.
struct Space {
  int64_t total = 0;
  int64_t available = 0;
};

// Resident memory of a rank before it has a model: libtorch and the connections.
inline constexpr int64_t kRankBytes = int64_t{200} << 20;

// The machine's memory, or that of the narrowest control group that this process is in. What files
// occupy and the kernel can drop is available. `root` holds proc/ and sys/.
Space memory_of_machine(const std::filesystem::path& root = "/");

// "takes 29.9 GiB of memory, and 11.2 GiB of 22.5 GiB are available"; nothing where it fits, or
// where the machine does not say what it has.
std::optional<std::string> memory_shortage(int64_t wanted, const Space& memory);

}  // namespace am::launch
