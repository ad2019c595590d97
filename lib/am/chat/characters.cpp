#include "am/chat/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

namespace am::chat {
namespace {

utf8proc_int32_t code(char32_t character) { return static_cast<utf8proc_int32_t>(character); }

utf8proc_category_t category(char32_t character) { return utf8proc_category(code(character)); }

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// A character whose upper case consists of several characters, with this upper case and the
// character's title case. kSpecialCases contains the most common of these characters from Unicode's
// SpecialCasing.txt.
struct SpecialCase {
  char32_t character;
  std::u32string_view upper, title;
};
constexpr std::array<SpecialCase, 11> kSpecialCases = {
    {{U'\u00DF', U"SS", U"Ss"},
     {U'\u0149', U"\u02BCN", U"\u02BCN"},
     {U'\u01F0', U"J\u030C", U"J\u030C"},
     {U'\u0587', U"\u0535\u0552", U"\u0535\u0582"},
     {U'\uFB00', U"FF", U"Ff"},
     {U'\uFB01', U"FI", U"Fi"},
     {U'\uFB02', U"FL", U"Fl"},
     {U'\uFB03', U"FFI", U"Ffi"},
     {U'\uFB04', U"FFL", U"Ffl"},
     {U'\uFB05', U"ST", U"St"},
     {U'\uFB06', U"ST", U"St"}}};

const SpecialCase* special_case(char32_t character) {
  const auto* const found =
      std::find_if(kSpecialCases.begin(), kSpecialCases.end(),
                   [&](const SpecialCase& row) { return row.character == character; });
  return found == kSpecialCases.end() ? nullptr : found;
}

void append_upper(std::string& out, char32_t character) {
  if (const SpecialCase* special = character < 0x80 ? nullptr : special_case(character)) {
    for (const char32_t c : special->upper) append_character(out, c);
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_toupper(code(character))));
  }
}

void append_title(std::string& out, char32_t character) {
  if (const SpecialCase* special = character < 0x80 ? nullptr : special_case(character)) {
    for (const char32_t c : special->title) append_character(out, c);
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_totitle(code(character))));
  }
}

bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT;
}

// Whether the character is case-ignorable in Unicode, for example a combining mark or an
// apostrophe. is_final_sigma() skips these characters.
bool is_case_ignorable(char32_t c) {
  const auto kind = category(c);
  return c == U'\'' || c == U'.' || c == U':' || c == U'\u2019' || c == U'\u00B7' ||
         kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
         kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_LM ||
         kind == UTF8PROC_CATEGORY_SK;
}

// Whether the sigma text[begin, end) ends a word: a cased letter precedes the sigma, and no cased
// letter follows.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  bool before = false;
  while (begin > 0) {
    do --begin;
    while (begin > 0 && is_continuation(text[begin]));
    size_t at = begin;
    const char32_t c = next_character(text, at);
    if (is_case_ignorable(c)) continue;
    before = is_cased(c);
    break;
  }
  while (before && end < text.size()) {
    const char32_t c = next_character(text, end);
    if (is_case_ignorable(c)) continue;
    return !is_cased(c);
  }
  return before;
}

// Appends the lower case of the character `c`, which is text[begin, end).
void append_lower(std::string& out, char32_t c, std::string_view text, size_t begin, size_t end) {
  if (c == U'\u0130') {
    out += "i\u0307";
  } else if (c == U'\u03A3' && is_final_sigma(text, begin, end)) {
    append_character(out, U'\u03C2');
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_tolower(code(c))));
  }
}

// Calls change(out, character, begin, end) for each character, which is text[begin, end), and
// returns `out`, to which `change` appends.
template <typename Change>
std::string mapped(std::string_view text, const Change& change) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    change(out, c, begin, at);
  }
  return out;
}

bool is_in_set(const std::string_view* set, char32_t c) {
  if (set == nullptr) return is_space(c);
  for (size_t at = 0; at < set->size();) {
    if (next_character(*set, at) == c) return true;
  }
  return false;
}

}  // namespace

size_t length(std::string_view text) {
  return text.size() -
         static_cast<size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) {
    do ++at;
    while (at < text.size() && is_continuation(text[at]));
  }
  return at;
}

char32_t next_character(std::string_view text, size_t& at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) {
    ++at;
    return byte;
  }
  utf8proc_int32_t c = 0;
  const utf8proc_ssize_t size =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                       static_cast<utf8proc_ssize_t>(text.size() - at), &c);
  at += size < 1 ? 1 : static_cast<size_t>(size);
  return size < 1 ? U'\uFFFD' : static_cast<char32_t>(c);
}

void append_character(std::string& out, char32_t character) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(code(character), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  const auto kind = category(c);
  return c == 0x85 || kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL ||
         kind == UTF8PROC_CATEGORY_ZP;
}

bool is_letter(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

int digit_value(char c) {
  const char low = static_cast<char>(c | 0x20);
  return c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'z' ? low - 'a' + 10 : 99;
}

bool is_word(char32_t c) { return c == U'_' || is_letter(c) || is_numeric(c); }

bool is_upper(char32_t c) { return utf8proc_isupper(code(c)) != 0; }

bool is_lower(char32_t c) { return utf8proc_islower(code(c)) != 0; }

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_SO;
}

std::string upper(std::string_view text) {
  return mapped(text, [](std::string& out, char32_t c, size_t, size_t) { append_upper(out, c); });
}

std::string lower(std::string_view text) {
  return mapped(text, [&](std::string& out, char32_t c, size_t begin, size_t end) {
    append_lower(out, c, text, begin, end);
  });
}

std::string title(std::string_view text) {
  bool inside = false;
  return mapped(text, [&](std::string& out, char32_t c, size_t begin, size_t end) {
    if (inside) {
      append_lower(out, c, text, begin, end);
    } else {
      append_title(out, c);
    }
    inside = is_cased(c);
  });
}

std::string capitalize(std::string_view text) {
  return mapped(text, [&](std::string& out, char32_t c, size_t begin, size_t end) {
    if (begin == 0) {
      append_title(out, c);
    } else {
      append_lower(out, c, text, begin, end);
    }
  });
}

std::string swap_case(std::string_view text) {
  return mapped(text, [&](std::string& out, char32_t c, size_t begin, size_t end) {
    if (is_upper(c)) {
      append_lower(out, c, text, begin, end);
    } else if (is_lower(c)) {
      append_upper(out, c);
    } else {
      append_character(out, c);
    }
  });
}

std::string fold_case(std::string_view text) {
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &folded, UTF8PROC_CASEFOLD);
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(folded, std::free);
  return size < 0 ? std::string(text)
                  : std::string(reinterpret_cast<const char*>(folded), static_cast<size_t>(size));
}

std::string_view strip_left(std::string_view text, const std::string_view* set) {
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    if (!is_in_set(set, next_character(text, end))) break;
    at = end;
  }
  return text.substr(at);
}

std::string_view strip_right(std::string_view text, const std::string_view* set) {
  while (!text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && is_continuation(text[begin])) --begin;
    size_t at = begin;
    if (!is_in_set(set, next_character(text, at))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

}  // namespace am::chat
