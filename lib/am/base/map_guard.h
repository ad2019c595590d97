// Mapped files that become smaller while they are open: another download over them, a truncated
// copy, a network file system that has lost them.
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

// For who maps files: a map is known from the first to the second.
void begin_guard(std::span<const std::byte> map);
void end_guard(std::span<const std::byte> map);

}  // namespace am
