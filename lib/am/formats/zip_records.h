// Reads the records of a zip archive written by torch.save. The records are found through the
// archive's central directory, and must be stored without compression.
//
//   for (const ZipRecord& record : read_zip_records(bytes, "weights.pt")) {
//     std::cout << record.name << "\n";
//   }
//
// Rejects compressed and encrypted records. Also rejects archives from which two zip programs could
// read different contents: records that overlap, extend beyond the archive or have equal names, and
// records whose local header contains another name than the central directory.
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

// Whether the bytes begin with the signature of a zip archive.
bool is_zip(std::span<const std::byte> bytes);

// Returns the records in the order of the central directory. `bytes` must be one complete archive
// without other bytes around it. The names and data in the result are views of `bytes`. Zip64
// archives are supported. Checksums are not compared, because PyTorch may write 0 instead. Throws
// Error(kFormat) for an invalid archive; messages begin with `where`.
std::vector<ZipRecord> read_zip_records(std::span<const std::byte> bytes, const std::string& where);

}  // namespace am::formats
