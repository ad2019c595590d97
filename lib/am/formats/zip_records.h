// The records of a zip archive as torch.save writes it: stored, never compressed, found by the
// central directory alone.
//
//   for (const ZipRecord& record : read_zip_records(bytes, "weights.pt")) ...
//
// Archives whose two directories disagree, whose records overlap or leave the archive, or are
// compressed, are refused: what one reader sees in them is not what another sees.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::formats {

struct ZipRecord {
  std::string_view name;  // as it stands in the archive
  std::span<const std::byte> data;
};

// Whether the bytes begin as an archive does.
bool is_zip(std::span<const std::byte> bytes);

// In the central directory's order; names and data view `bytes`, which are the archive and nothing
// else. Zip64's fields are read where the others are full. Checksums are not compared: PyTorch's
// own may be 0. Throws Error(kFormat); `where` names the bytes.
std::vector<ZipRecord> read_zip_records(std::span<const std::byte> bytes, const std::string& where);

}  // namespace am::formats
