// Reads the format of torch.save before PyTorch 1.6, which torch.save still writes on request:
// consecutive pickles (a magic number, a protocol, the machine's sizes, the object, the keys of its
// storages), then for each key its number of elements and their bytes.
//
//   if (is_legacy_torch(bytes)) const LegacyTorch file = read_legacy_torch(bytes, "weights.pt");
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/formats/pickle.h"

namespace am::formats {

struct LegacyTorch {
  Pickle object;
  // Pairs of a storage's key and bytes.
  std::vector<std::pair<std::string_view, std::span<const std::byte>>> storages;
};

// Whether the bytes begin with the magic number of this format.
bool is_legacy_torch(std::span<const std::byte> bytes);

// Reads a file. `bytes` must outlive the result. Throws Error(kFormat), with a message that begins
// with `where`, if the byte order is not little-endian, or if a storage is truncated, missing,
// duplicated, or not of the size in the object's pickle.
LegacyTorch read_legacy_torch(std::span<const std::byte> bytes, const std::string& where);

}  // namespace am::formats
