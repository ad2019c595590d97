// Guards memory-mapped files: limits the memory that the maps occupy, and detects files that shrink
// while they are open, e.g. by another download, a truncated copy, or a lost network file system.
//
// The kernel raises SIGBUS for an access beyond the end of a file, which ends the process without a
// message. A tool calls guard_mapped_files() once, so that the access reads zeros instead. Code
// that has read from a MappedFile then calls require_whole() to check that the data came from the
// file. A program that embeds the library can keep its own SIGBUS handler by not calling
// guard_mapped_files().
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace am {

// Installs a SIGBUS handler for registered maps. At other addresses it reinstalls the previous
// handler, which then handles the access. The installed handler runs on the thread's alternate
// stack, if there is one.
void guard_mapped_files();

// Call after reading from a mapped file: throws Error(kIo) naming the file if the SIGBUS handler
// has replaced a part of the map by zeros, because the file became smaller or can no longer be
// read.
void require_whole(const std::filesystem::path& path, std::span<const std::byte> map);

// Counts `bytes` bytes as read from memory maps. After every 64 MiB, counted over the process,
// releases the pages of all registered maps from the process; they stay in the kernel's page cache.
// For readers that stream through maps larger than memory.
void forget_read_pages(size_t bytes);

// begin_guard() registers a map. end_guard() unregisters it, and must be called before munmap.
void begin_guard(std::span<const std::byte> map);
void end_guard(std::span<const std::byte> map);

}  // namespace am
