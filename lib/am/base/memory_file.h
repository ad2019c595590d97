// Anonymous files in memory, freed with their last descriptor.
//
//   const int fd = open_memory_file("log");
#pragma once

namespace am {

// Whether a file's size can change.
enum class FileSize {
  kFree,   // grows with writes
  kFixed,  // fixed by fix_size()
};

// Returns a descriptor that closes on exec; -1 with errno on failure. From Linux 6.3 on, the file
// is not executable, because machines with vm.memfd_noexec = 2 refuse executable files in memory.
int open_memory_file(const char* name, FileSize size = FileSize::kFree);

// Sets the size of a file of FileSize::kFixed permanently. Returns false, with errno, on failure.
bool fix_size(int fd, long bytes);

// Whether the descriptor is a memory file that can never shrink, so that access to a map of it
// cannot fail.
bool has_fixed_size(int fd);

}  // namespace am
