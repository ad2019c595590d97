// Contents of a file of text, decompressed if it is a gzip or Zstandard file; or the stored bytes
// of a Parquet file.
//
//   const DataFile file("corpus.jsonl.zst", "UTF-8 text");
//   file.for_each_block([&](const DataBlock& block) { count += block.text.size(); });
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "am/base/file.h"

namespace am::data {

// A part of a file's content.
struct DataBlock {
  std::string_view text;
  int64_t file_bytes = 0;  // bytes of the file, as stored, up to the end of the block
  std::shared_ptr<const std::string> owner;  // keeps `text`; null if the DataFile does
};

class DataFile {
 public:
  // Opens a file. Throws Error(kIo) if it cannot be read, Error(kFormat) if it is empty or of
  // another known format than `wanted`, for example an archive.
  DataFile(const std::filesystem::path& path, std::string_view wanted);

  const std::filesystem::path& path() const { return path_; }
  // Returns the path without the suffix .gz or .zst.
  const std::filesystem::path& name() const { return name_; }

  // Whether this is a Parquet file. The next functions then return its bytes as stored.
  bool is_table() const { return is_table_; }
  // Returns the file's bytes as stored, which the object keeps.
  std::span<const std::byte> stored() const { return map_.bytes(); }

  // Calls `visit` with the content in order. A block ends at the end of a line, unless it is the
  // last. Throws Error(kFormat) if the compressed data are damaged or truncated.
  void for_each_block(const std::function<void(const DataBlock&)>& visit) const;
  // Returns the first block.
  DataBlock beginning() const;
  // Returns the whole content.
  DataBlock whole() const;

 private:
  enum class Compression { kNone, kGzip, kZstd };

  // Like for_each_block(), until `visit` returns false.
  void refuse_packed(std::string_view beginning) const;
  void for_blocks(const std::function<bool(const DataBlock&)>& visit) const;

  std::filesystem::path path_;
  std::filesystem::path name_;
  std::string wanted_;
  MappedFile map_;
  Compression compression_ = Compression::kNone;
  bool is_table_ = false;
};

}  // namespace am::data
