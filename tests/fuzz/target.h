// A fuzz target: bytes in, no crash, no hang, no large allocation, whatever they are.
//
//   build/bin/fuzz_plan tests/fuzz/seeds/plan      the seeds and mutations of them, as ctest runs it
//   scripts/fuzz plan 600                          libFuzzer, 600 seconds (needs clang++)
//
// What reads with lib/am/data is named data_*: that folder needs no libtorch, its library does.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "am/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace am::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// The bytes as a file of a name, for readers that look at names.
inline void write_file(const std::filesystem::path& path, const uint8_t* data, size_t size) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text_of(data, size);
}

// The bytes as a file, for readers that take a path.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    while (size > 0) {
      const ssize_t written = ::write(fd_, data, size);
      if (written <= 0) break;
      data += written;
      size -= static_cast<size_t>(written);
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace am::fuzz
