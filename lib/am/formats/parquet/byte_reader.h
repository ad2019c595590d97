// Reads numbers from a range of bytes of a Parquet file. Reading beyond the range is an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/formats/little_endian.h"

namespace am::formats::parquet {

using Bytes = std::span<const std::byte>;

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Throws Error(kFormat) for bytes that violate the format. The message names neither the file nor
// the column; callers add both by at_place().
[[noreturn]] inline void fail_damaged(const std::string& what) {
  throw Error(ErrorKind::kFormat, what,
              "the file is damaged, or its writer had not finished; write it again");
}

// Throws Error(kFormat) for a legal part of the format that this reader does not implement.
[[noreturn]] inline void fail_unsupported(const std::string& what) {
  throw Error(ErrorKind::kFormat, what,
              "write the file again with pyarrow's defaults, or write its rows as .jsonl");
}

// Returns read(). If read() throws an Error, puts the text of place() before the error's message.
template <typename Read, typename Place>
decltype(auto) at_place(const Read& read, const Place& place) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.kind(), cat(place(), ": ", error.what()), error.hint());
  }
}

class ByteReader {
 public:
  ByteReader() = default;
  explicit ByteReader(Bytes bytes) : bytes_(bytes) {}

  bool empty() const { return at_ == bytes_.size(); }
  size_t at() const { return at_; }  // number of bytes that have been read
  Bytes rest() const { return bytes_.subspan(at_); }

  // The functions below throw Error(kFormat) if too few bytes are left.
  //
  // Returns the next `size` bytes.
  Bytes take(uint64_t size) {
    if (size > bytes_.size() - at_) fail_damaged("the bytes end early");
    const Bytes taken = bytes_.subspan(at_, static_cast<size_t>(size));
    at_ += taken.size();
    return taken;
  }
  template <typename T>
  T number() {
    return little_endian<T>(take(sizeof(T)));
  }
  // Reads an unsigned LEB128 number: 7 bits per byte, lowest first.
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = number<uint8_t>();
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail_damaged("a number has more than 64 bits");
  }
  // Reads a signed number in zigzag encoding: the varints 0, 1, 2, 3, ... encode 0, -1, 1, -2, ...
  int64_t zigzag() {
    const uint64_t value = varint();
    return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }

 private:
  Bytes bytes_;
  size_t at_ = 0;
};

// Returns the number of `width` bits, 0 to 64, that begins at bit `bit` of `bytes`, counted from
// the lowest bit of the first byte. All its bits must lie inside `bytes`.
inline uint64_t bits_at(Bytes bytes, uint64_t bit, int width) {
  if (width == 0) return 0;
  const auto first = static_cast<size_t>(bit / 8);
  const int shift = static_cast<int>(bit % 8);
  uint64_t value = 0;
  const size_t left = bytes.size() - first;
  if (left >= sizeof value) {
    value = little_endian<uint64_t>(bytes, first);
  } else {
    std::memcpy(&value, bytes.data() + first, left);
  }
  value >>= shift;
  if (shift + width > 64) value |= static_cast<uint64_t>(bytes[first + 8]) << (64 - shift);
  return width == 64 ? value : value & ((uint64_t{1} << width) - 1);
}

}  // namespace am::formats::parquet
