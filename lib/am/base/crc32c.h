// CRC-32C (Castagnoli's polynomial, as in iSCSI, ext4 and SCTP): a 32-bit checksum that detects any
// burst of flipped bits that is up to 32 bits long. With SSE4.2, an instruction processes 8 bytes,
// and a checksum costs about as much as copying the bytes.
//
//   uint32_t sum = crc32c(first);
//   sum = crc32c(second, sum);      // checksum of both parts, concatenated
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace am {

// Returns the CRC-32C of `bytes`. To continue a checksum, pass the CRC-32C of the preceding bytes
// as `before`.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// Returns the same checksum as crc32c(), computed from a table, for processors without SSE4.2.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace am
