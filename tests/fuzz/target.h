// A fuzz target: no input may cause a crash, a hang or a large allocation.
//
//   build/bin/fuzz_plan tests/fuzz/seeds/plan      seeds and mutations of the seeds, as under ctest
//   scripts/fuzz plan 600                          libFuzzer, 600 seconds (needs clang++)
//
// Targets of readers in lib/am/data are named data_*. All targets link only the core, without
// libtorch.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "am/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace am::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A temporary file in memory, for readers that open a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {}
  MemoryFile(const uint8_t* data, size_t size) : MemoryFile() { write(data, size); }
  // Also creates the symbolic link `name` to the file, for readers that depend on the name.
  explicit MemoryFile(const std::filesystem::path& name) : MemoryFile() {
    std::filesystem::create_symlink(path(), name);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }

  // Replaces the file's content.
  void write(const uint8_t* data, size_t size) const {
    if (::ftruncate(fd_, 0) != 0) return;
    for (size_t at = 0; at < size;) {
      const ssize_t written = ::pwrite(fd_, data + at, size - at, static_cast<off_t>(at));
      if (written <= 0) break;
      at += static_cast<size_t>(written);
    }
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace am::fuzz
