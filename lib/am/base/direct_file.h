// Writes new files sequentially past the page cache, several pieces at a time, into preallocated
// space: a full disk is detected before any byte is written, and saving evicts nothing from memory.
// The disk writes some pieces while others are filled.
//
//   DirectFile file("step-100.tmp/__0_0.distcp", size);
//   file.write(header);
//   file.write(values);      // aligned memory is not copied
//   file.close();
//
// If the file system does not support O_DIRECT (tmpfs, some network file systems), the same pieces
// go through the page cache, and writeback is started piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace am {

// Alignment of addresses, lengths and file offsets for O_DIRECT; 512 would suffice on most disks.
inline constexpr size_t kDirectAlignment = 4096;
// Size of one write, and the number of concurrent writes, enough to keep a disk busy. A file
// buffers at most this many pieces, 16 MiB.
inline constexpr size_t kDirectPiece = size_t{2} << 20;
inline constexpr size_t kDirectWriters = 8;

// Allocates memory of that alignment, uninitialised. Throws std::bad_alloc.
struct FreeAligned {
  void operator()(std::byte* memory) const;
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeAligned>;
AlignedMemory allocate_aligned(size_t bytes);

// Not thread-safe: use from one thread.
class DirectFile {
 public:
  // `piece`: bytes per piece, a multiple of the alignment. Throws Error(kIo) naming the file if it
  // cannot be written, or the disk has less than `size` bytes.
  DirectFile(const std::filesystem::path& path, uint64_t size, size_t piece = kDirectPiece);
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;
  // Keeps the file, unfinished if close() was not called.
  ~DirectFile();

  // Appends. Throws Error(kIo), also for earlier writes.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Writes the rest, truncates the file to the bytes written, and waits until it is on disk.
  void close();
  // Bytes written so far.
  uint64_t position() const { return given_ + filled_; }
  // Whether the page cache is bypassed.
  bool is_direct() const;

 private:
  class Writers;

  void write_aligned(std::span<const std::byte> bytes);

  size_t piece_;
  std::unique_ptr<Writers> writers_;  // null after close()
  uint64_t given_ = 0;  // passed to the writers: whole pieces, or aligned parts of the input
  std::byte* buffer_ = nullptr;  // piece being filled, owned by the writers
  size_t filled_ = 0;
};

}  // namespace am
