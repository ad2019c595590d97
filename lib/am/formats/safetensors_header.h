// The header of a safetensors file, read in one pass and checked against the file's size.
//
// No tree of the JSON is built: a model of a hundred thousand tensors opens in a fraction of a
// second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "am/formats/safetensors.h"

namespace am::formats {

// The file begins with its header's length.
inline constexpr size_t kLengthBytes = 8;
// The reference implementation's limit.
inline constexpr uint64_t kLongestHeader = 100'000'000;
inline constexpr const char* kMetadataKey = "__metadata__";

// Bytes of a tensor; nothing when the product does not fit in 64 bits.
std::optional<uint64_t> safetensors_byte_size(const Shape& shape, int64_t element_size);

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // by offset
  std::map<std::string, std::string> metadata;
  size_t data_begin = 0;  // in the file
};

// `bytes` are the whole file's. Throws Error(kFormat) as SafetensorsFile::open; only names that
// appear twice are its caller's to find.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path,
                                          std::span<const std::byte> bytes,
                                          Truncated truncated = Truncated::kRefused);
// The error for a tensor whose data end behind the file's.
[[noreturn]] void refuse_truncated(const std::filesystem::path& path, const SafetensorsEntry& entry,
                                   uint64_t data_size);

// The error for a file that is none, with what is wrong about it.
[[noreturn]] void not_safetensors(const std::filesystem::path& path, const std::string& what);

}  // namespace am::formats
