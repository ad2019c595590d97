// Numbers of files that have their lowest byte first, wherever they lie.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace am::formats {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files' numbers are read as they lie");

// The T at `offset`, which the caller has checked to lie inside, T's bytes included.
template <typename T>
T little_endian(std::span<const std::byte> bytes, size_t offset = 0) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace am::formats
