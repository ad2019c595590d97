// Reads the format of torch.save before PyTorch 1.6. torch.save still writes this format with
// _use_new_zipfile_serialization=False. A file consists of five pickles: a magic number, the
// protocol version, the byte order and type sizes of the machine, the saved object, and the keys of
// the object's storages. The storages follow in the order of the keys. Each consists of its number
// of elements and its bytes.
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
  // The key and the bytes of each storage.
  std::vector<std::pair<std::string_view, std::span<const std::byte>>> storages;
};

// Whether the bytes begin with the magic number of this format.
bool is_legacy_torch(std::span<const std::byte> bytes);

// Reads a file. `bytes` must outlive the result. Throws Error(kFormat), with a message that begins
// with `where`, if a pickle is invalid, if the byte order is not little-endian, or if a storage is
// truncated, missing, duplicated, or not of the size in the object's pickle.
LegacyTorch read_legacy_torch(std::span<const std::byte> bytes, const std::string& where);

}  // namespace am::formats
