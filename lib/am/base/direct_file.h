// Writes a new file sequentially and without the page cache (O_DIRECT), so that the pages of other
// files stay in the cache. Space is allocated first, so that a full disk is detected before any
// byte is written. Up to 8 threads write the file in pieces, by default of 2 MiB, while the caller
// fills the next piece.
//
//   DirectFile file("step-100.tmp/__0_0.distcp", size);
//   file.write(header);
//   file.write(values);      // aligned memory is not copied
//   file.close();
//
// If the file system does not support O_DIRECT (some network file systems), the pieces are written
// through the page cache, and writeback starts after each piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace am {

// Alignment, in bytes, of addresses, lengths and file offsets for O_DIRECT. On most disks, 512
// would suffice.
inline constexpr size_t kDirectAlignment = 4096;
// kDirectPiece is the default number of bytes of one write. kDirectWriters is the largest number of
// concurrent writes, enough to keep a disk busy. A file buffers at most kDirectWriters pieces, by
// default 16 MiB.
inline constexpr size_t kDirectPiece = size_t{2} << 20;
inline constexpr size_t kDirectWriters = 8;

// allocate_aligned() returns at least `bytes` bytes that are aligned to kDirectAlignment and not
// initialised. Throws std::bad_alloc. FreeAligned frees this memory.
struct FreeAligned {
  void operator()(std::byte* memory) const;
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeAligned>;
AlignedMemory allocate_aligned(size_t bytes);

// Not thread-safe: all calls must come from one thread.
class DirectFile {
 public:
  // Creates the file, or empties an existing one. `piece` is the number of bytes of one write, a
  // multiple of kDirectAlignment. Throws Error(kIo) if the file cannot be written, or if the disk
  // has less than `size` bytes left. A `size` of 0 allocates no space in advance.
  DirectFile(const std::filesystem::path& path, uint64_t size, size_t piece = kDirectPiece);
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;
  // Closes the file without deleting it. If close() was not called before, the file is incomplete.
  ~DirectFile();

  // Appends bytes, and may keep some of them in a buffer. Throws Error(kIo) if a write to the disk
  // has failed. The write of buffered bytes may fail after this call; a later call then throws.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Writes the buffered bytes, truncates the file to position(), and waits until the whole file is
  // on disk. Throws Error(kIo).
  void close();
  // Returns the number of bytes that were passed to write() so far.
  uint64_t position() const { return given_ + filled_; }
  // Whether writes bypass the page cache; false after close().
  bool is_direct() const;

 private:
  class Writers;

  void write_aligned(std::span<const std::byte> bytes);

  size_t piece_;
  std::unique_ptr<Writers> writers_;  // null after close()
  // Number of bytes passed to the writers; a multiple of kDirectAlignment until close().
  uint64_t given_ = 0;
  std::byte* buffer_ = nullptr;  // buffer that is being filled; owned by writers_
  size_t filled_ = 0;            // number of bytes in buffer_
};

}  // namespace am
