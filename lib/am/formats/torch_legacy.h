// What torch.save wrote before PyTorch 1.6, and writes today when it is asked to: pickles one
// behind the other (a magic number, a protocol, the machine's sizes, the object, the keys of its
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
  std::vector<std::pair<std::string_view, std::span<const std::byte>>> storages;  // by key
};

// Whether the bytes begin with its magic number.
bool is_legacy_torch(std::span<const std::byte> bytes);

// `bytes` must outlive the result. Throws Error(kFormat), which `where` begins: another byte order,
// storages that are cut off, missing, twice there, or of a size that the object does not give them.
LegacyTorch read_legacy_torch(std::span<const std::byte> bytes, const std::string& where);

}  // namespace am::formats
