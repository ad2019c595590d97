// The header of a safetensors file, read in one pass and checked against the file's size.
//
// The reader builds no JSON tree, so that a model of a hundred thousand tensors opens in a fraction
// of a second.
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

// Number of bytes of the header's length, with which a safetensors file begins.
inline constexpr size_t kLengthBytes = 8;
// Maximum number of bytes of a header, as in the reference implementation.
inline constexpr uint64_t kLongestHeader = 100'000'000;
inline constexpr const char* kMetadataKey = "__metadata__";

// Returns the number of bytes of a tensor; nullopt if it does not fit in 64 bits.
std::optional<uint64_t> safetensors_byte_size(const Shape& shape, int64_t element_size);

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // ordered by offset
  std::map<std::string, std::string> metadata;
  size_t data_begin = 0;  // offset of the data section in the file
};

// Reads the header; `bytes` is the whole file. Throws Error(kFormat) like SafetensorsFile::open,
// except for duplicate names, which the caller must detect.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path,
                                          std::span<const std::byte> bytes,
                                          Truncated truncated = Truncated::kRefused);
// Throws the error for a tensor whose data extend beyond the end of the file.
[[noreturn]] void refuse_truncated(const std::filesystem::path& path, const SafetensorsEntry& entry,
                                   uint64_t data_size);

// Throws the error for a file that is not valid safetensors. `what`: the reason.
[[noreturn]] void not_safetensors(const std::filesystem::path& path, const std::string& what);

}  // namespace am::formats
