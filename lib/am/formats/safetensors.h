// safetensors on disk: header checked against the file before a byte of data is trusted.
//
// Layout: u64 little-endian header length, JSON header, data. Every entry names dtype, shape and
// [begin, end) relative to the data; no holes, no overlaps, the whole file covered.
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

// Bytes per element of a safetensors dtype name ("F32", "BF16", ...); 0 for an unknown one.
int64_t safetensors_dtype_size(std::string_view dtype);

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  Shape shape;
  uint64_t begin = 0;  // in the data section
  uint64_t end = 0;
};

// What to do with a file that ends before its data do.
enum class Truncated { kRefused, kOpened };

// An opened, validated file. The map lives as long as this object and whatever shares `file()`.
class SafetensorsFile {
 public:
  // Throws Error(kIo) when it cannot be read, Error(kFormat) when the header lies: the message
  // names the file and what is wrong (truncated, overlapping, wrong size, unknown dtype).
  static SafetensorsFile open(const std::filesystem::path& path,
                              Truncated truncated = Truncated::kRefused);
  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // by offset
  const SafetensorsEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Throws Error(kFormat) for what lies behind the end of a truncated file.
  std::span<const std::byte> data(const SafetensorsEntry& entry) const;
  // What a truncated file lacks, in words; empty for a whole one.
  std::string truncation() const;
  // After data was read: throws Error(kIo) when the file has become smaller meanwhile.
  void require_whole() const;
  std::shared_ptr<const MappedFile> file() const { return file_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  SafetensorsFile() = default;

  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<SafetensorsEntry> entries_;
  std::unordered_map<std::string_view, const SafetensorsEntry*> by_name_;  // into entries_
  std::map<std::string, std::string> metadata_;
  size_t data_begin_ = 0;
};

// The folder's *.safetensors, by name. Throws filesystem_error.
std::vector<std::filesystem::path> safetensors_in(const std::filesystem::path& folder);
std::vector<std::filesystem::path> paths_of(const std::vector<SafetensorsFile>& files);

// Writes one file: header first, then tensors in the order given; 8-byte aligned data. The caller
// passes each tensor's bytes when asked for (so that a model needs not be in memory twice). Throws
// Error(kIo) on a full disk, which is known before a byte is written.
struct SafetensorsItem {
  std::string name;
  std::string dtype;
  Shape shape;
};
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<SafetensorsItem>& items,
                    const std::map<std::string, std::string>& metadata);
  // The next item's bytes, row-major; may be called repeatedly for one item with parts of it, in
  // order.
  void write(std::span<const std::byte> bytes);
  // fsync; throws Error(kInternal) when bytes are missing.
  void close();

 private:
  std::unique_ptr<DirectFile> file_;
  uint64_t expected_ = 0;
  uint64_t written_ = 0;
};

}  // namespace am::formats
