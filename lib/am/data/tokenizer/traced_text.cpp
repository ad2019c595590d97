#include "am/data/tokenizer/traced_text.h"

#include <algorithm>

namespace am::data {

void TracedText::append(const TracedText& from, size_t begin, size_t end) {
  text.append(from.text, begin, end - begin);
  if (!traced) return;
  origin.insert(origin.end(), from.origin.begin() + static_cast<std::ptrdiff_t>(begin),
                from.origin.begin() + static_cast<std::ptrdiff_t>(end));
}

void TracedText::append(std::string_view characters, ByteRange from) {
  text += characters;
  if (traced) origin.insert(origin.end(), characters.size(), from);
}

void TracedText::change(const std::vector<ChangedCharacter>& changed, size_t removed) {
  TracedText out = empty_copy();
  size_t at = 0;
  const auto pass = [&](size_t characters) {
    for (; characters > 0 && at < text.size(); --characters) next_character(text, at);
  };
  pass(removed);
  std::string letter;
  for (const ChangedCharacter& each : changed) {
    letter.clear();
    append_utf8(letter, each.character);
    if (each.change > 0) {
      // An added character gets the origin of the character before it.
      out.append(letter, at == 0 ? ByteRange() : origin_of(at - 1));
      continue;
    }
    out.append(letter, text.empty() ? ByteRange() : origin_of(std::min(at, text.size() - 1)));
    pass(1 + static_cast<size_t>(-each.change));
  }
  *this = std::move(out);
}

TracedText trace(std::string_view text, bool with_origins) {
  TracedText out{{}, {}, with_origins};
  if (!with_origins) {
    out.text = valid_utf8(text);
    return out;
  }
  out.text.reserve(text.size());
  out.origin.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    out.append(step.valid ? text.substr(at, step.length) : kReplacement, {at, at + step.length});
    at += step.length;
  }
  return out;
}

Piece whole(const TracedText& text, size_t begin) {
  const ByteRange* origin = text.traced ? text.origin.data() : nullptr;
  const bool known = text.traced && !text.origin.empty();
  return {text.text, origin, known ? text.origin.front().begin : begin};
}

TracedText copy_of(const Piece& piece) {
  TracedText out{std::string(piece.text), {}, piece.origin != nullptr};
  if (out.traced) out.origin.assign(piece.origin, piece.origin + piece.text.size());
  return out;
}

}  // namespace am::data
