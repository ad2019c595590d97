#include "am/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace am {

namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bit-reversed, as the crc32 instruction uses it

constexpr std::array<uint32_t, 256> make_byte_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1U) ^ ((sum & 1U) != 0 ? kPolynomial : 0);
    table[byte] = sum;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kByteTable = make_byte_table();

// Returns the checksum `sum` extended by `byte`. Both `sum` and the result lack the final inversion
// of CRC-32C.
constexpr uint32_t append(uint32_t sum, uint8_t byte) {
  return kByteTable[(sum ^ byte) & 0xffU] ^ (sum >> 8U);
}

#if defined(__x86_64__)

// Extends a checksum by `Zeros` zero bytes. Four table look-ups, one per byte of the checksum,
// suffice, because the result is linear in the checksum's bits (over GF(2)).
template <size_t Zeros>
class Shift {
 public:
  Shift() {
    std::array<uint32_t, 32> of_bit{};
    for (size_t bit = 0; bit < of_bit.size(); ++bit) {
      uint32_t sum = uint32_t{1} << bit;
      for (size_t i = 0; i < Zeros; ++i) sum = append(sum, 0);
      of_bit[bit] = sum;
    }
    for (size_t byte = 0; byte < 4; ++byte) {
      for (size_t value = 0; value < 256; ++value) {
        uint32_t sum = 0;
        for (size_t bit = 0; bit < 8; ++bit) {
          if ((value >> bit & 1U) != 0) sum ^= of_bit[8 * byte + bit];
        }
        tables_[byte][value] = sum;
      }
    }
  }

  uint32_t operator()(uint32_t sum) const {
    return tables_[0][sum & 0xffU] ^ tables_[1][sum >> 8U & 0xffU] ^
           tables_[2][sum >> 16U & 0xffU] ^ tables_[3][sum >> 24U];
  }

 private:
  std::array<std::array<uint32_t, 256>, 4> tables_{};
};

uint64_t load(const std::byte* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Extends the checksum `sum` by all complete blocks of 3 * Part bytes at the front of `bytes`, and
// removes these blocks from `bytes`. The three parts of a block are processed in parallel, because
// the crc32 instruction has a latency of three cycles and a throughput of one per cycle.
template <size_t Part>
[[gnu::target("sse4.2")]] void take_thirds(uint32_t& sum, std::span<const std::byte>& bytes) {
  if (bytes.size() < 3 * Part) return;
  static const Shift<Part> shift;
  while (bytes.size() >= 3 * Part) {
    uint64_t a = sum;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < Part; i += sizeof(uint64_t)) {
      a = _mm_crc32_u64(a, load(bytes.data() + i));
      b = _mm_crc32_u64(b, load(bytes.data() + Part + i));
      c = _mm_crc32_u64(c, load(bytes.data() + 2 * Part + i));
    }
    sum = shift(shift(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^
          static_cast<uint32_t>(c);
    bytes = bytes.subspan(3 * Part);
  }
}

[[gnu::target("sse4.2")]] uint32_t by_instruction(std::span<const std::byte> bytes,
                                                  uint32_t before) {
  uint32_t sum = ~before;
  take_thirds<4096>(sum, bytes);
  take_thirds<256>(sum, bytes);
  uint64_t rest = sum;
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    rest = _mm_crc32_u64(rest, load(bytes.data()));
  }
  sum = static_cast<uint32_t>(rest);
  for (const std::byte byte : bytes) sum = append(sum, static_cast<uint8_t>(byte));
  return ~sum;
}

#endif

}  // namespace

uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t sum = ~before;
  for (const std::byte byte : bytes) sum = append(sum, static_cast<uint8_t>(byte));
  return ~sum;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return by_instruction(bytes, before);
#endif
  return crc32c_portable(bytes, before);
}

}  // namespace am
