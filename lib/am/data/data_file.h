// Reads a text file. Decompresses the content of a gzip or Zstandard file. Returns the content of a
// Parquet file as raw bytes, which formats/parquet/table.h decodes.
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

// A part of a file's decompressed content.
struct DataBlock {
  std::string_view text;
  int64_t file_bytes = 0;  // bytes read from the file so far, before decompression
  std::shared_ptr<const std::string> owner;  // owns `text`; null if the DataFile owns it
};

class DataFile {
 public:
  // Opens a file. Throws Error(kIo) if the file cannot be read, Error(kFormat) if the file is empty
  // or begins with the signature of an unsupported format, for example a zip archive. `wanted`
  // names the expected content in messages.
  DataFile(const std::filesystem::path& path, std::string_view wanted);

  const std::filesystem::path& path() const { return path_; }
  // Returns the path; for a compressed file, without the suffix .gz or .zst.
  const std::filesystem::path& name() const { return name_; }

  // Whether this is a Parquet file. The functions below then return its raw bytes.
  bool is_table() const { return is_table_; }
  // Returns the file's bytes without decompression, valid for the lifetime of this object.
  std::span<const std::byte> stored() const { return map_.bytes(); }

  // Calls `visit` with the blocks of the content, in order. An uncompressed file is one block. A
  // compressed file is divided at ends of lines. Throws Error(kFormat) if compressed data are
  // damaged or truncated, or contain an archive or another unsupported format.
  void for_each_block(const std::function<void(const DataBlock&)>& visit) const;
  // Returns the first block.
  DataBlock beginning() const;
  // Returns the whole content.
  DataBlock whole() const;

 private:
  enum class Compression { kNone, kGzip, kZstd };

  void refuse_packed(std::string_view beginning) const;
  // Calls `visit` as for_each_block() does, until `visit` returns false.
  void for_blocks(const std::function<bool(const DataBlock&)>& visit) const;

  std::filesystem::path path_;
  std::filesystem::path name_;
  std::string wanted_;
  MappedFile map_;
  Compression compression_ = Compression::kNone;
  bool is_table_ = false;
};

}  // namespace am::data
