// Reads the records of a zip archive written by torch.save. Records must be stored without
// compression; they are found through the central directory.
//
//   for (const ZipRecord& record : read_zip_records(bytes, "weights.pt")) {
//     std::cout << record.name << "\n";
//   }
//
// Rejects archives whose local headers and central directory disagree on a record's name, and
// records that are compressed, encrypted, overlap or extend beyond the archive, because different
// zip programs would read different contents from such archives.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::formats {

struct ZipRecord {
  std::string_view name;  // full name in the archive, for example "archive/data.pkl"
  std::span<const std::byte> data;
};

// Whether the bytes begin like a zip archive.
bool is_zip(std::span<const std::byte> bytes);

// Returns the records in the central directory's order; names and data are views of `bytes`, which
// must be exactly the archive. Zip64 archives are supported. Checksums are not compared, because
// PyTorch may write 0. Throws Error(kFormat); `where` names the input.
std::vector<ZipRecord> read_zip_records(std::span<const std::byte> bytes, const std::string& where);

}  // namespace am::formats
