#include "am/formats/pickle_memos.h"

#include <algorithm>
#include <cstddef>

namespace am::formats {

namespace {

// Encoding of the argument that follows an opcode. At most one member is nonzero.
struct Argument {
  size_t bytes = 0;   // length of an argument of fixed length, in bytes
  size_t prefix = 0;  // size in bytes of the length field before an argument of variable length
  size_t lines = 0;   // number of lines of an argument that is text, each ended by a newline
};
Argument argument_of(uint8_t opcode) {
  switch (opcode) {
    case 0x80:  // PROTO
    case 'K':   // BININT1
    case 'q':   // BINPUT
    case 'h':   // BINGET
      return {.bytes = 1};
    case 'M':  // BININT2
      return {.bytes = 2};
    case 'J':  // BININT
    case 'r':  // LONG_BINPUT
    case 'j':  // LONG_BINGET
      return {.bytes = 4};
    case 0x95:  // FRAME
    case 'G':   // BINFLOAT
      return {.bytes = 8};
    case 0x8a:  // LONG1
    case 0x8c:  // SHORT_BINUNICODE
    case 'U':   // SHORT_BINSTRING
    case 'C':   // SHORT_BINBYTES
      return {.prefix = 1};
    case 0x8b:  // LONG4
    case 'X':   // BINUNICODE
    case 'T':   // BINSTRING
    case 'B':   // BINBYTES
      return {.prefix = 4};
    case 0x8d:  // BINUNICODE8
    case 0x8e:  // BINBYTES8
      return {.prefix = 8};
    case 'c':  // GLOBAL
      return {.lines = 2};
    default:
      return {};
  }
}

uint64_t number_of(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

}  // namespace

RecalledMemos recalled_memos(std::span<const std::byte> bytes) {
  RecalledMemos recalled;
  size_t next = 0;
  while (next < bytes.size()) {
    const auto opcode = std::to_integer<uint8_t>(bytes[next++]);
    if (opcode == '.') break;
    Argument argument = argument_of(opcode);
    const size_t left = bytes.size() - next;
    if (std::max(argument.bytes, argument.prefix) > left) break;
    if (opcode == 'h' || opcode == 'j') {
      recalled.insert(number_of(bytes.subspan(next, argument.bytes)));
    }
    if (argument.prefix > 0) {
      const uint64_t length = number_of(bytes.subspan(next, argument.prefix));
      if (length > left - argument.prefix) break;
      argument.bytes = argument.prefix + length;
    }
    next += argument.bytes;
    for (; argument.lines > 0; --argument.lines) {
      const auto end = std::find(bytes.begin() + static_cast<std::ptrdiff_t>(next), bytes.end(),
                                 std::byte{'\n'});
      if (end == bytes.end()) return recalled;
      next = static_cast<size_t>(end - bytes.begin()) + 1;
    }
  }
  return recalled;
}

}  // namespace am::formats
