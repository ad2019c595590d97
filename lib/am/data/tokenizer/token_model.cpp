#include "am/data/tokenizer/token_model.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::data {

std::string byte_token(unsigned char byte) {
  std::array<char, 8> text;
  std::snprintf(text.data(), text.size(), "<0x%02X>", static_cast<unsigned>(byte));
  return text.data();
}

std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !starts_with(token, "<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  const char* end = token.data() + 5;
  const auto read = std::from_chars(token.data() + 3, end, value, 16);
  return read.ec == std::errc() && read.ptr == end ? std::optional(static_cast<char>(value))
                                                   : std::nullopt;
}

bool UnknownText::has_bytes(std::string_view text) const {
  if (of_byte.empty()) return false;
  for (const char c : text) {
    if (!of_byte[static_cast<unsigned char>(c)]) return false;
  }
  return true;
}

uint32_t UnknownText::required_id(std::string_view text) const {
  if (id) return *id;
  throw Error(ErrorKind::kFormat,
              cat("the tokenizer has no token for \"", text, "\", and none for unknown text"));
}

std::vector<std::optional<uint32_t>> byte_ids(const Vocabulary& vocabulary) {
  std::vector<std::optional<uint32_t>> ids;
  for (unsigned byte = 0; byte < 256; ++byte) {
    ids.push_back(find_id(vocabulary, byte_token(static_cast<unsigned char>(byte))));
  }
  return ids;
}

}  // namespace am::data
