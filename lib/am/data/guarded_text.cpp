#include "am/data/guarded_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::data {
namespace {

// Returns the number of bytes of the UTF-8 character that begins with this byte.
size_t character_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

TextGuard::TextGuard(std::vector<std::string> special_tokens, const Json& texts)
    : special_tokens_(std::move(special_tokens)) {
  std::erase_if(special_tokens_, [](const std::string& token) {
    return token.empty() || token.size() <= character_length(token.front());
  });
  // Characters for private use, which texts rarely have.
  constexpr std::array<const char*, 4> kGuards = {"\U000F1A3D", "\U000F5E07", "\U000FB2C9",
                                                  "\U0010A6F3"};
  const std::string all = dump_json(texts, -1);
  for (const char* guard : kGuards) {
    if (all.find(guard) == std::string::npos) {
      guard_ = guard;
      return;
    }
  }
  throw Error(ErrorKind::kFormat,
              "the conversation has all characters by which special tokens could be marked",
              "data.split_special_tokens = false");
}

Json TextGuard::guarded(const Json& value) const {
  if (value.is_string()) return guarded_text(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  Json out = value;
  for (Json& each : out) each = guarded(each);
  return out;
}

std::string TextGuard::guarded_text(std::string_view text) const {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const bool special =
        std::any_of(special_tokens_.begin(), special_tokens_.end(),
                    [&](const std::string& token) { return starts_with(rest, token); });
    const size_t length = std::min(character_length(text[at]), rest.size());
    out += rest.substr(0, length);
    if (special) out += guard_;
    at += length;
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
    // The guards before this one have shifted it.
    if (guards[i] + i * guard_.size() >= offset) return offset - i * guard_.size();
  }
  return offset - guards.size() * guard_.size();
}

}  // namespace am::data
