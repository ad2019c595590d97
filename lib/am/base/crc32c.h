// CRC-32C (Castagnoli's polynomial, as in iSCSI, ext4 and SCTP): 32 bits that change with any burst
// of flipped bits up to 32 long. A processor with SSE4.2 takes 8 bytes an instruction, so that to
// compute it costs about what copying the bytes does.
//
//   uint32_t sum = crc32c(first);
//   sum = crc32c(second, sum);      // that of both, one behind the other
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace am {

// `before`: that of what lies before these bytes; 0: nothing does.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// The same by a table, on any processor.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace am
