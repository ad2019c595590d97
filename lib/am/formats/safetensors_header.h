// The header of a safetensors file, read in one pass and checked against the file's size.
//
// The reader builds no JSON tree, because a header may list a hundred thousand tensors.
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

// Number of bytes of the header's length, which is the first field of a safetensors file.
inline constexpr size_t kLengthBytes = 8;
// Maximum number of bytes of a header, as in the reference implementation.
inline constexpr uint64_t kLongestHeader = 100'000'000;
// Key of the header's metadata. All other keys are names of tensors.
inline constexpr const char* kMetadataKey = "__metadata__";

// Returns the number of bytes of a tensor, given the number of bytes of an element; nullopt if the
// result does not fit in 64 bits.
std::optional<uint64_t> safetensors_byte_size(const Shape& shape, int64_t element_size);

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // ordered by offset
  std::map<std::string, std::string> metadata;
  size_t data_begin = 0;  // offset of the data section in the file
};

// Returns the header of the file with the contents `bytes`. Messages name `path`. Throws
// Error(kFormat) for the same errors as SafetensorsFile::open(), except that the caller must detect
// tensors with equal names.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path,
                                          std::span<const std::byte> bytes,
                                          Truncated truncated = Truncated::kRefused);
// Throws Error(kFormat) for a tensor whose data extend beyond the end of the file. `data_size`:
// number of bytes of the data section that the file contains.
[[noreturn]] void refuse_truncated(const std::filesystem::path& path, const SafetensorsEntry& entry,
                                   uint64_t data_size);

// Throws Error(kFormat) for a file that is not valid safetensors. `what`: the reason.
[[noreturn]] void not_safetensors(const std::filesystem::path& path, const std::string& what);

}  // namespace am::formats
