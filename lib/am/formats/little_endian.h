// Reads little-endian numbers at any alignment.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace am::formats {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are read without a byte swap");

// Returns the number that begins at byte `offset` of `bytes`; the caller must have checked that all
// its bytes are inside `bytes`.
template <typename T>
T little_endian(std::span<const std::byte> bytes, size_t offset = 0) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace am::formats
