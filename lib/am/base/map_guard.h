// Guards memory-mapped files: limits the memory that the maps occupy, and detects files that shrink
// or become unreadable while they are open, for example because another program writes them or a
// network file system is lost.
//
// For an access beyond the end of a file, the kernel raises SIGBUS, and this signal ends the
// process without a message. After guard_mapped_files(), which a tool calls once, the access reads
// zeros instead. Code that has read from a MappedFile therefore calls require_whole() to check that
// the data came from the file. A program that embeds the library can keep its own SIGBUS handler by
// not calling guard_mapped_files().
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace am {

// Installs a SIGBUS handler for registered maps. For an access to another address, this handler
// reinstalls the previous handler, which then handles the access. The SIGBUS handler runs on the
// thread's alternate stack, if the thread has such a stack.
void guard_mapped_files();

// Call after reading from a mapped file: throws Error(kIo) naming the file if the SIGBUS handler
// has replaced a part of the map by zeros, because the file became smaller or can no longer be
// read.
void require_whole(const std::filesystem::path& path, std::span<const std::byte> map);

// Adds `bytes` to the process's count of bytes read from memory maps. After every 64 MiB, releases
// the pages of all registered maps from the process; the pages stay in the kernel's page cache.
// Code that reads through maps larger than memory calls this function.
void forget_read_pages(size_t bytes);

// begin_guard() registers a map, and end_guard() unregisters it. end_guard() must be called before
// munmap. MappedFile calls both functions.
void begin_guard(std::span<const std::byte> map);
void end_guard(std::span<const std::byte> map);

}  // namespace am
