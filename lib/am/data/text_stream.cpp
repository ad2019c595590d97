#include "am/data/text_stream.h"

#include <algorithm>
#include <string_view>

#include "am/base/text.h"

namespace am::data {
namespace {

// U+FFFD, to which tokenizers decode the bytes of an incomplete or invalid character.
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Returns the size in bytes of the settled part of `text`: the beginning that no further id can
// change.
size_t settled_size(std::string_view text) {
  while (true) {
    if (ends_with(text, " ")) {
      text.remove_suffix(1);
    } else if (ends_with(text, kReplacement)) {
      text.remove_suffix(kReplacement.size());
    } else {
      break;
    }
  }
  // A UTF-8 character has at most four bytes, so an incomplete character begins in the last three
  // bytes.
  for (size_t count = 1; count <= std::min<size_t>(3, text.size()); ++count) {
    const auto byte = static_cast<unsigned char>(text[text.size() - count]);
    if (byte < 0x80) break;
    if (byte < 0xC0) continue;
    const size_t length = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    if (length > count) text.remove_suffix(count);
    break;
  }
  return text.size();
}

}  // namespace

std::string TextStream::shown_up_to(const std::string& text, size_t size) {
  if (size <= shown_) return {};
  std::string out = text.substr(shown_, size - shown_);
  shown_ = size;
  return out;
}

std::string TextStream::add(int64_t id) {
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_);
  return shown_up_to(text, settled_size(text));
}

std::string TextStream::finish() {
  const std::string text = tokenizer_.decode(ids_);
  return shown_up_to(text, text.size());
}

}  // namespace am::data
