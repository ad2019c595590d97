// Reads and writes safetensors files. Opening a file checks the header against the file's size.
//
// Layout of a file: the header's length (uint64, little-endian), the header (JSON), the data
// section. The header has an entry for each tensor: dtype, shape, and the tensor's byte range
// [begin, end) in the data section. The ranges cover the data section without holes or overlaps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "am/base/direct_file.h"
#include "am/base/file.h"
#include "am/base/shape.h"

namespace am::formats {

// Returns the number of bytes per element of a safetensors dtype name ("F32", "BF16", ...); 0 for
// an unknown name.
int64_t safetensors_dtype_size(std::string_view dtype);

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  Shape shape;
  uint64_t begin = 0;  // offset of the first byte in the data section
  uint64_t end = 0;
};

// Treatment of a file that is shorter than its header requires: kRefused makes open() throw,
// kOpened makes SafetensorsFile::data() throw for tensors with missing bytes.
enum class Truncated { kRefused, kOpened };

// An open file whose header is valid. The file stays mapped into memory as long as this object or a
// copy of file() exists.
class SafetensorsFile {
 public:
  // Opens a file. Throws Error(kIo) if the file cannot be read. Throws Error(kFormat) if the header
  // is invalid or does not match the file; the message contains the path and the problem, for
  // example a truncated file, overlapping tensors or an unknown dtype.
  static SafetensorsFile open(const std::filesystem::path& path,
                              Truncated truncated = Truncated::kRefused);
  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // ordered by offset
  const SafetensorsEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Returns the bytes of a tensor. Throws Error(kFormat) if they extend beyond the end of a
  // truncated file.
  std::span<const std::byte> data(const SafetensorsEntry& entry) const;
  // Returns a description of what a truncated file lacks; empty for a complete file.
  std::string truncation() const;
  // Call after reading from data(). Throws Error(kIo) if the bytes that were read may be zeros
  // instead of the file's bytes, because the file has become smaller since it was opened or can no
  // longer be read (map_guard.h).
  void require_whole() const;
  std::shared_ptr<const MappedFile> file() const { return file_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  SafetensorsFile() = default;

  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<SafetensorsEntry> entries_;
  // Entries by name, as pointers into entries_.
  std::unordered_map<std::string_view, const SafetensorsEntry*> by_name_;
  std::map<std::string, std::string> metadata_;
  size_t data_begin_ = 0;
};

// Returns the paths of the folder's *.safetensors files, sorted by name. Throws
// std::filesystem::filesystem_error if the folder cannot be read.
std::vector<std::filesystem::path> safetensors_in(const std::filesystem::path& folder);
std::vector<std::filesystem::path> paths_of(const std::vector<SafetensorsFile>& files);

// A tensor to be written.
struct SafetensorsItem {
  std::string name;
  std::string dtype;
  Shape shape;
};
// Writes one file: the header, then the tensors in the given order. The data section begins at a
// multiple of 8 bytes. The caller passes the bytes of one tensor after the other, so a model need
// not be in memory twice. The constructor throws Error(kIo) if the disk has not enough space for
// the whole file.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<SafetensorsItem>& items,
                    const std::map<std::string, std::string>& metadata);
  // Writes the next item's bytes, row-major; may be called repeatedly with consecutive parts of an
  // item.
  void write(std::span<const std::byte> bytes);
  // Calls fsync and closes the file. Throws Error(kInternal) if the caller has written fewer bytes
  // than the items have.
  void close();

 private:
  std::unique_ptr<DirectFile> file_;
  uint64_t expected_ = 0;
  uint64_t written_ = 0;
};

}  // namespace am::formats
