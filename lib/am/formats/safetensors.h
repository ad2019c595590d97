// Reads and writes safetensors files. The header is checked against the file before any data is
// used.
//
// Layout: u64 little-endian header length, JSON header, data. Every entry has dtype, shape and
// [begin, end) relative to the data; entries cover the data section without holes or overlaps.
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

// Treatment of a file that is shorter than its header requires.
enum class Truncated { kRefused, kOpened };

// An open, validated file. The memory map exists as long as this object or a copy of file().
class SafetensorsFile {
 public:
  // Opens a file. Throws Error(kIo) if the file cannot be read, Error(kFormat) if the header is
  // inconsistent; the message names the file and the problem (truncated, overlapping, wrong size,
  // unknown dtype).
  static SafetensorsFile open(const std::filesystem::path& path,
                              Truncated truncated = Truncated::kRefused);
  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // ordered by offset
  const SafetensorsEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Returns the bytes of a tensor. Throws Error(kFormat) for data behind the end of a truncated
  // file.
  std::span<const std::byte> data(const SafetensorsEntry& entry) const;
  // Returns a description of what a truncated file lacks; empty for a complete file.
  std::string truncation() const;
  // Throws Error(kIo) if the file has become smaller since it was opened. Call it after reading
  // from data(), because missing bytes may read as zeros.
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

// Returns the paths of the folder's *.safetensors files, sorted by name. Throws filesystem_error.
std::vector<std::filesystem::path> safetensors_in(const std::filesystem::path& folder);
std::vector<std::filesystem::path> paths_of(const std::vector<SafetensorsFile>& files);

// A tensor to be written.
struct SafetensorsItem {
  std::string name;
  std::string dtype;
  Shape shape;
};
// Writes one file: the header, then the tensors in the given order. The data section begins at a
// multiple of 8 bytes. The caller passes each tensor's bytes in turn, so that a model need not be
// in memory twice. Throws Error(kIo) on a full disk, which is detected before any byte is written.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<SafetensorsItem>& items,
                    const std::map<std::string, std::string>& metadata);
  // Writes the next item's bytes, row-major; may be called repeatedly with consecutive parts of an
  // item.
  void write(std::span<const std::byte> bytes);
  // Closes the file after fsync. Throws Error(kInternal) if fewer bytes were written than the items
  // have.
  void close();

 private:
  std::unique_ptr<DirectFile> file_;
  uint64_t expected_ = 0;
  uint64_t written_ = 0;
};

}  // namespace am::formats
