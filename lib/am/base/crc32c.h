// CRC-32C (Castagnoli's polynomial, as in iSCSI, ext4 and SCTP): 32 bits that detect any burst of
// flipped bits up to 32 long. SSE4.2 processes 8 bytes per instruction, so that it costs about as
// much as copying the bytes.
//
//   uint32_t sum = crc32c(first);
//   sum = crc32c(second, sum);      // checksum of both parts, concatenated
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace am {

// Returns the CRC-32C of `bytes`, appended to bytes whose checksum is `before` (0: none).
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// Table-based implementation for any processor.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace am
