#include "am/data/guarded_text.h"

#include <array>
#include <utility>

#include "am/base/error.h"
#include "am/data/tokenizer/unicode.h"

namespace am::data {

Trie guarded_tokens(const std::vector<std::string>& special_tokens) {
  Trie tokens;
  for (const std::string& token : special_tokens) {
    if (!token.empty() && token.size() > utf8_step(token).length) tokens.add(token, 0);
  }
  return tokens;
}

TextGuard::TextGuard(const Trie& tokens, std::string_view texts) : tokens_(tokens) {
  // Private-use characters, which texts rarely contain.
  constexpr std::array<const char*, 4> kGuards = {"\U000F1A3D", "\U000F5E07", "\U000FB2C9",
                                                  "\U0010A6F3"};
  for (const char* guard : kGuards) {
    if (texts.find(guard) == std::string_view::npos) {
      guard_ = guard;
      return;
    }
  }
  throw Error(ErrorKind::kFormat,
              "the conversation contains every character that could mark its special tokens",
              "set data.split_special_tokens = false");
}

void TextGuard::guard(Json& value) const {
  if (value.is_string()) {
    value = guarded_text(value.get_ref<const std::string&>());
  } else if (value.is_structured()) {
    for (Json& each : value) guard(each);
  }
}

std::string TextGuard::guarded_text(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_step(text).length;
    out += text.substr(0, length);
    if (tokens_.longest(text).length > 0) out += guard_;
    text.remove_prefix(length);
  }
  return out;
}

std::vector<size_t> TextGuard::remove(std::string& text) const {
  std::vector<size_t> places;
  std::string out;
  size_t at = 0;
  for (size_t found = text.find(guard_); found != std::string::npos;
       found = text.find(guard_, at)) {
    out.append(text, at, found - at);
    places.push_back(out.size());
    at = found + guard_.size();
  }
  out.append(text, at);
  text = std::move(out);
  return places;
}

size_t TextGuard::without_guards(size_t offset, const std::vector<size_t>& guards) const {
  for (size_t i = 0; i < guards.size(); ++i) {
    const size_t begin = guards[i] + i * guard_.size();
    if (offset <= begin) return offset - i * guard_.size();
    if (offset < begin + guard_.size()) return guards[i];
  }
  return offset - guards.size() * guard_.size();
}

}  // namespace am::data
