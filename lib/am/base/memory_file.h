// A file in memory, without a name and without a folder: it is gone with its last descriptor.
//
//   const int fd = open_memory_file("log");
#pragma once

namespace am {

// Who may change a file's size.
enum class FileSize {
  kFree,   // it grows as it is written
  kFixed,  // nobody, once fix_size() was called
};

// A descriptor that closes on exec; -1 with errno where the system has none. The file can never be
// executed: a machine with vm.memfd_noexec = 2 grants no other.
int open_memory_file(const char* name, FileSize size = FileSize::kFree);

// Gives a file of FileSize::kFixed its size, for ever. False, with errno, where that fails.
bool fix_size(int fd, long bytes);

// Whether the descriptor is of a file in memory that can never become smaller: mapped memory of it
// cannot fail.
bool has_fixed_size(int fd);

}  // namespace am
