// Anonymous files in memory, freed when their last descriptor and last map are closed.
//
//   const int fd = open_memory_file("log");
#pragma once

namespace am {

// Whether a file's size can change.
enum class FileSize {
  kFree,   // grows with writes
  kFixed,  // fixed by fix_size()
};

// Returns a descriptor that closes on exec, or -1 with errno on failure. `name` is only shown in
// /proc. From Linux 6.3 on, the file is not executable, because machines with vm.memfd_noexec = 2
// refuse executable files in memory.
int open_memory_file(const char* name, FileSize size = FileSize::kFree);

// Sets the size of a file of FileSize::kFixed permanently to `bytes`. Returns false, with errno, on
// failure.
bool fix_size(int fd, long bytes);

// Whether the descriptor is a memory file whose size can never change. Access to a map of this file
// therefore cannot raise SIGBUS.
bool has_fixed_size(int fd);

}  // namespace am
