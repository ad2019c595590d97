// New files that are written front to back past the page cache, several pieces at a time, into
// space that was taken beforehand: a full disk is known before a byte is written, and what a job
// saves pushes nothing out of memory. The disk writes some pieces while others are filled.
//
//   DirectFile file("step-100.tmp/__0_0.distcp", size);
//   file.write(header);
//   file.write(values);      // what lies aligned in memory is not copied
//   file.close();
//
// Where the file system refuses O_DIRECT (tmpfs, some network file systems) the same pieces go
// through the page cache, and their way to the disk is begun one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace am {

// What O_DIRECT asks of addresses, lengths and places in a file; 512 would do on most disks.
inline constexpr size_t kDirectAlignment = 4096;
// One write, and how many are under way: a disk has work for all of them. Copies of so many pieces,
// 16 MiB, are all that a file holds.
inline constexpr size_t kDirectPiece = size_t{2} << 20;
inline constexpr size_t kDirectWriters = 8;

// Memory of that alignment, its contents undefined. Throws std::bad_alloc.
struct FreeAligned {
  void operator()(std::byte* memory) const;
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeAligned>;
AlignedMemory allocate_aligned(size_t bytes);

// Of one thread.
class DirectFile {
 public:
  // Pieces are of this many bytes, a multiple of the alignment.
  // Throws Error(kIo) that names the file: it cannot be written, or the disk has no `size` bytes.
  DirectFile(const std::filesystem::path& path, uint64_t size, size_t piece = kDirectPiece);
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;
  // Leaves the file as it is: unfinished where close() was not called.
  ~DirectFile();

  // Behind what was written. Throws Error(kIo), of what was given before too.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Writes what is left, cuts the file to what was written, and waits until it is on the disk.
  void close();
  // Bytes until now.
  uint64_t position() const { return given_ + filled_; }
  // Whether the page cache is passed by.
  bool is_direct() const;

 private:
  class Writers;

  void write_aligned(std::span<const std::byte> bytes);

  size_t piece_;
  std::unique_ptr<Writers> writers_;  // null once it is closed
  uint64_t given_ = 0;                // to the writers: whole pieces, or aligned parts of what came
  std::byte* buffer_ = nullptr;       // the piece that is filled, one of theirs
  size_t filled_ = 0;
};

}  // namespace am
