// Text that the stages of a tokenizer change, with the place in the original text that each byte
// came from.
//
//   TracedText traced = trace("ab", /*with_origins=*/true);
//   TracedText longer = traced.empty_copy();
//   longer.append("_", traced.origin_of(0));
//   longer.append(traced, 0, 2);                // "_ab", of which "_" came from "a"
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/data/tokenizer/unicode.h"

namespace am::data {

// The bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

struct TracedText {
  std::string text;               // valid UTF-8
  std::vector<ByteRange> origin;  // by byte of `text`; empty if origins are not traced
  bool traced = false;

  // Returns an empty text, traced if this one is.
  TracedText empty_copy() const { return {{}, {}, traced}; }
  ByteRange origin_of(size_t at) const { return traced ? origin[at] : ByteRange(); }
  // Appends the bytes [begin, end) of another text.
  void append(const TracedText& from, size_t begin, size_t end);
  // Appends characters that all have the origin `from`.
  void append(std::string_view characters, ByteRange from);
  // Drops the first `removed` characters, and replaces the remaining text by `changed`; see
  // ChangedCharacter.
  void change(const std::vector<ChangedCharacter>& changed, size_t removed = 0);
};

// Returns the text with invalid UTF-8 replaced by U+FFFD. The origin of each byte is the whole
// character that contains it.
TracedText trace(std::string_view text, bool with_origins);

// A part of a traced text.
struct Piece {
  std::string_view text;
  const ByteRange* origin = nullptr;  // by byte of `text`; null if origins are not traced
  size_t begin = 0;                   // offset of the first byte in the original text

  // Returns the bytes [from, to) of the piece.
  Piece part(size_t from, size_t to) const {
    const ByteRange* first = origin == nullptr ? nullptr : origin + from;
    const bool known = first != nullptr && from < to;
    return {text.substr(from, to - from), first, known ? first->begin : begin + from};
  }
};

// Returns the whole text as a piece. `begin`: its offset in the original text, used only if origins
// are not traced.
Piece whole(const TracedText& text, size_t begin);
// Returns a copy of a piece.
TracedText copy_of(const Piece& piece);

}  // namespace am::data
