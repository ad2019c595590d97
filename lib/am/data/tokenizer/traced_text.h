// A text that the stages of a tokenizer change. Each byte stores its origin: the range of the
// original text that the byte came from.
//
//   TracedText traced = trace("ab", /*with_origins=*/true);
//   TracedText longer = traced.empty_copy();
//   longer.append("_", traced.origin_of(0));
//   longer.append(traced, 0, 2);                // "_ab"; the origin of "_" is "a"
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
  std::vector<ByteRange> origin;  // one per byte of `text`; empty if origins are not traced
  bool traced = false;            // whether origins are traced

  // Returns an empty text with the same `traced`.
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

// Returns `text` with invalid UTF-8 replaced by U+FFFD. If `with_origins`, the origin of each byte
// is the range of its whole character in `text`.
TracedText trace(std::string_view text, bool with_origins);

// A part of a traced text.
struct Piece {
  std::string_view text;
  const ByteRange* origin = nullptr;  // one per byte of `text`; null if origins are not traced
  // Offset of the first byte in the original text. Without origins, it is exact only if no stage
  // has changed the length of the text before the piece.
  size_t begin = 0;

  // Returns the bytes [from, to) of the piece.
  Piece part(size_t from, size_t to) const {
    const ByteRange* first = origin == nullptr ? nullptr : origin + from;
    const bool known = first != nullptr && from < to;
    return {text.substr(from, to - from), first, known ? first->begin : begin + from};
  }
};

// Returns the whole text as a piece. `begin`: offset of the piece in the original text. The origin
// of the text's first byte, if traced, overrides `begin`.
Piece whole(const TracedText& text, size_t begin);
// Returns a copy of a piece.
TracedText copy_of(const Piece& piece);

}  // namespace am::data
