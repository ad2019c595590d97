#include "am/base/crc32c.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string_view>
#include <vector>

namespace am {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

TEST_CASE("CRC-32C of published test vectors") {
  // The first two checksums are from RFC 3720, B.4. 0xe3069283 is the check value by which
  // catalogues of CRCs identify CRC-32C.
  CHECK(crc32c(std::vector<std::byte>(32)) == 0x8a9136aa);
  CHECK(crc32c(std::vector<std::byte>(32, std::byte{0xff})) == 0x62a8ab43);
  CHECK(crc32c(bytes_of("123456789")) == 0xe3069283);
  CHECK(crc32c({}) == 0);
}

TEST_CASE("CRC-32C is the same by instruction and by table, whole and in parts") {
  std::vector<std::byte> bytes(40'000);
  uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1'664'525 + 1'013'904'223;
    byte = static_cast<std::byte>(state >> 24U);
  }
  const std::span<const std::byte> all = bytes;
  for (const size_t size : {1, 7, 8, 767, 768, 769, 12'287, 12'288, 12'289, 39'990}) {
    for (const size_t from : {0, 1, 5}) {
      const auto part = all.subspan(from, size);
      CHECK(crc32c(part) == crc32c_portable(part));
      const size_t cut = size / 3;
      CHECK(crc32c(part.subspan(cut), crc32c(part.first(cut))) == crc32c(part));
    }
  }
  bytes[20'000] ^= std::byte{4};
  const uint32_t spoilt = crc32c(all);
  bytes[20'000] ^= std::byte{4};
  CHECK(crc32c(all) != spoilt);
}

}  // namespace am
