// Guards memory-mapped files: limits the memory they occupy, and detects files that shrink while
// they are open, e.g. by another download, a truncated copy, or a lost network file system.
//
// The kernel raises SIGBUS for an access behind the end of a file, which ends the process without a
// message. A tool calls guard_mapped_files() once; such an access then reads zeros, and code that
// has read from a MappedFile calls require_whole() to check that the data were the file's. A
// program that embeds the library and has its own SIGBUS handler is unaffected: without that call
// no handler is installed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace am {

// Installs a SIGBUS handler for registered maps; for other addresses, the previous handler is
// called. The handler runs on the thread's alternate stack, if there is one.
void guard_mapped_files();

// Call after reading from a mapped file: throws Error(kIo) naming the file if it has become smaller
// than its map, or cannot be read any more, so that the data read are invalid.
void require_whole(const std::filesystem::path& path, std::span<const std::byte> map);

// For readers that stream through maps larger than memory: reports that `bytes` bytes were read.
// After every 64 MiB, counted over the process, the pages of all registered maps are released from
// the process; they stay in the kernel's page cache.
void forget_read_pages(size_t bytes);

// begin_guard() registers a map, end_guard() unregisters it and must precede munmap.
void begin_guard(std::span<const std::byte> map);
void end_guard(std::span<const std::byte> map);

}  // namespace am
