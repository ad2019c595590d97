// Mapped files: the memory that they take, and those that become smaller while they are open:
// another download over them, a truncated copy, a network file system that has lost them.
//
// The kernel answers a look behind the end with SIGBUS, which ends the process without a word. A
// tool calls guard_mapped_files() once; then such a look finds zeros, and whoever has read from a
// MappedFile asks require_whole() whether that was the file. A program that embeds the library and
// has its own handler of SIGBUS loses nothing: without that call nothing is installed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace am {

// Handles SIGBUS in maps that are known here; elsewhere it does what it did before. On the
// alternate stack of the thread, where it has one.
void guard_mapped_files();

// After a part of a mapped file was read: throws Error(kIo) that names it when it has become
// smaller than its map, or cannot be read any more, and what was read was not it.
void require_whole(const std::filesystem::path& path, std::span<const std::byte> map);

// For who streams through mapped files that are larger than what it may take of memory: says that
// so many bytes of them were read. Every 64 MiB of the process's, what was read leaves it; the
// kernel still has it, and a look at it finds it again.
void forget_read_pages(size_t bytes);

// For who maps files: a map is known from the first to the second, before it is unmapped.
void begin_guard(std::span<const std::byte> map);
void end_guard(std::span<const std::byte> map);

}  // namespace am
