#include "am/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/formats/safetensors_header.h"

namespace am::formats {

namespace fs = std::filesystem;

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path, Truncated truncated) {
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    // Other kinds of files, for example pipes, cannot be mapped into memory.
    throw Error(ErrorKind::kIo, cat(path.string(), ": not a regular file"));
  }
  SafetensorsFile file;
  file.path_ = path;
  file.file_ = std::make_shared<const MappedFile>(path);
  SafetensorsHeader header = read_safetensors_header(path, file.file_->bytes(), truncated);
  file.require_whole();
  file.entries_ = std::move(header.entries);
  file.metadata_ = std::move(header.metadata);
  file.data_begin_ = header.data_begin;
  file.by_name_.reserve(file.entries_.size());
  for (const SafetensorsEntry& entry : file.entries_) {
    if (file.by_name_.emplace(entry.name, &entry).second) continue;
    not_safetensors(path, cat("tensor \"", entry.name, "\": the header names it twice"));
  }
  return file;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

void SafetensorsFile::require_whole() const { am::require_whole(path_, file_->bytes()); }

std::span<const std::byte> SafetensorsFile::data(const SafetensorsEntry& entry) const {
  const std::span<const std::byte> all = file_->bytes().subspan(data_begin_);
  if (entry.end > all.size()) refuse_truncated(path_, entry, all.size());
  return all.subspan(entry.begin, entry.end - entry.begin);
}

std::string SafetensorsFile::truncation() const {
  const uint64_t there = file_->bytes().size() - data_begin_;
  const uint64_t end = entries_.empty() ? 0 : entries_.back().end;
  if (end <= there) return {};
  return cat("it was cut off: ", end - there, " bytes of its data are missing");
}

std::vector<fs::path> safetensors_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".safetensors") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> paths_of(const std::vector<SafetensorsFile>& files) {
  std::vector<fs::path> paths;
  for (const SafetensorsFile& file : files) paths.push_back(file.path());
  return paths;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<SafetensorsItem>& items,
                                     const std::map<std::string, std::string>& metadata) {
  SortedJson header = SortedJson::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::set<std::string_view> seen;
  for (const SafetensorsItem& item : items) {
    AM_ASSERT(seen.insert(item.name).second && item.name != kMetadataKey,
              cat("safetensors: the name \"", item.name, "\" cannot be written (again)"));
    const int64_t element_size = safetensors_dtype_size(item.dtype);
    AM_ASSERT(element_size != 0, cat("safetensors: unknown dtype \"", item.dtype, "\""));
    const auto bytes = safetensors_byte_size(item.shape, element_size);
    AM_ASSERT(bytes.has_value(), cat("safetensors: \"", item.name, "\" has more than 2^64 bytes"));
    SortedJson& entry = header[item.name];
    entry["dtype"] = item.dtype;
    entry["shape"] = item.shape;
    entry["data_offsets"] = {expected_, expected_ + *bytes};
    expected_ += *bytes;
  }
  std::string text = dump_json(header, -1);
  // Pads the header with spaces. The data then begin at a multiple of 8 bytes in the file, and can
  // be used in place when the file is mapped into memory.
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  AM_ASSERT(text.size() <= kLongestHeader, "safetensors: the header is too long for the format");
  std::array<char, kLengthBytes> length;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i) & 0xFF);
  }
  file_ = std::make_unique<DirectFile>(path, kLengthBytes + text.size() + expected_);
  file_->write(std::string_view(length.data(), length.size()));
  file_->write(text);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  AM_ASSERT(bytes.size() <= expected_ - written_, "safetensors: more bytes than the header names");
  file_->write(bytes);
  written_ += bytes.size();
}

void SafetensorsWriter::close() {
  AM_ASSERT(written_ == expected_,
            cat("safetensors: ", expected_ - written_, " bytes are missing"));
  file_->close();
}

}  // namespace am::formats
