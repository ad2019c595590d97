#include "am/data/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::data {
namespace {

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

struct FreeText {
  void operator()(utf8proc_uint8_t* text) const { std::free(text); }
};

// Whether the character has Unicode's property White_Space: the separators and six control
// characters.
bool is_space(utf8proc_int32_t c) {
  if ((c >= '\t' && c <= '\r') || c == 0x85) return true;
  const utf8proc_category_t category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

// Decodes the code point at `at` into `c` and returns its length; below 1 if the bytes are not
// valid UTF-8.
utf8proc_ssize_t decode(std::string_view text, size_t at, utf8proc_int32_t& c) {
  return utf8proc_iterate(bytes_of(text) + at, static_cast<utf8proc_ssize_t>(text.size() - at), &c);
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t length = decode(text, at, c);
    if (length < 1) {
      out += "\xEF\xBF\xBD";
      ++at;
      continue;
    }
    out.append(text, at, static_cast<size_t>(length));
    at += static_cast<size_t>(length);
  }
  return out;
}

std::string normalize_nfc(std::string_view text) {
  // Text below U+0300 is already in form C: it has no combining marks, and no letters with a
  // singleton decomposition.
  if (std::all_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0xCC; })) {
    return std::string(text);
  }
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, FreeText> owner(mapped);
  if (length < 0) {
    throw Error(ErrorKind::kRuntime, cat("cannot normalize the text: ", utf8proc_errmsg(length)));
  }
  return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(length)};
}

void append_utf8(std::string& out, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t length = decode(text, at, c);
    if (length < 1 || !is_space(c)) break;
    at += static_cast<size_t>(length);
  }
  return at;
}

size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    utf8proc_int32_t c = 0;
    if (decode(text, begin, c) < 1 || !is_space(c)) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace am::data
