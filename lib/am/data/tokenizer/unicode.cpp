#include "am/data/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
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

utf8proc_category_t category_of(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Returns the canonical combining class of a character: 0 for a starter, for example a letter, and
// a positive number for most combining marks.
int class_of(char32_t c) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

// Decomposes characters (Unicode annex 15), and sorts the marks behind each starter by their
// combining class.
class Decomposition {
 public:
  explicit Decomposition(bool compatible)
      : options_(static_cast<utf8proc_option_t>(compatible ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT
                                                           : UTF8PROC_DECOMPOSE)) {}

  void add(char32_t c) {
    // The longest decomposition of one character, that of U+FDFA, has 18 characters.
    std::array<utf8proc_int32_t, 32> parts;
    int last_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), options_, &last_class);
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<char32_t>(parts[static_cast<size_t>(i)]);
      if (class_of(part) == 0) sort_marks();
      characters_.push_back({part, i == 0 ? 0 : 1});
      if (class_of(part) == 0) marks_ = characters_.size();
    }
  }

  std::vector<ChangedCharacter> take() {
    sort_marks();
    return std::move(characters_);
  }

 private:
  void sort_marks() {
    std::stable_sort(characters_.begin() + static_cast<std::ptrdiff_t>(marks_), characters_.end(),
                     [](const ChangedCharacter& a, const ChangedCharacter& b) {
                       return class_of(a.character) < class_of(b.character);
                     });
    marks_ = characters_.size();
  }

  utf8proc_option_t options_;
  std::vector<ChangedCharacter> characters_;
  size_t marks_ = 0;  // where the marks behind the last starter begin
};

// Returns the character that the pair composes to; 0 if there is none.
char32_t composed(char32_t a, char32_t b) {
  if (a < 0x3C || b < 0x300) return 0;  // no composition begins with this `a` or ends with this `b`
  std::array<utf8proc_int32_t, 4> pair = {static_cast<utf8proc_int32_t>(a),
                                          static_cast<utf8proc_int32_t>(b)};
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(
      pair.data(), 2, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  return count == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

// Composes decomposed text (Unicode annex 15). The ChangedCharacter of a composition replaces all
// characters that its two parts replaced.
std::vector<ChangedCharacter> compose(const std::vector<ChangedCharacter>& text) {
  std::vector<ChangedCharacter> out;
  out.reserve(text.size());
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t starter = kNone;
  int last_class = -1;  // class of the last output character behind the starter; -1: there is none
  for (const ChangedCharacter& each : text) {
    const int own_class = class_of(each.character);
    if (starter != kNone && last_class < own_class) {
      if (const char32_t whole = composed(out[starter].character, each.character)) {
        out[starter] = {whole, out[starter].change + each.change - 1};
        continue;
      }
    }
    if (own_class == 0) {
      starter = out.size();
      last_class = -1;
    } else {
      last_class = own_class;
    }
    out.push_back(each);
  }
  return out;
}

bool is_letter(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  size_t at = 1;
  for (; at < std::min(length, text.size()); ++at) {
    unsigned low = 0x80;
    unsigned high = 0xBF;
    if (at == 1 && lead == 0xE0) low = 0xA0;   // overlong
    if (at == 1 && lead == 0xED) high = 0x9F;  // a surrogate
    if (at == 1 && lead == 0xF0) low = 0x90;   // overlong
    if (at == 1 && lead == 0xF4) high = 0x8F;  // above U+10FFFF
    if (byte(at) < low || byte(at) > high) break;
  }
  return {at, at == length};
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t copied = 0;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (!step.valid) {
      out.append(text, copied, at - copied).append(kReplacement);
      copied = at + step.length;
    }
    at += step.length;
  }
  return out.append(text, copied);
}

char32_t next_character(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  if (lead < 0xE0) {
    const char32_t c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    at += 2;
    return c;
  }
  if (lead < 0xF0) {
    const char32_t c = (lead & 0x0F) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
    at += 3;
    return c;
  }
  const char32_t c =
      (lead & 0x07) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 | (byte(3) & 0x3FU);
  at += 4;
  return c;
}

void append_utf8(std::string& out, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

std::string normalize_nfc(std::string_view text) {
  // A text without characters from U+0300 on (in UTF-8: without bytes from 0xCC on) is already in
  // form C. None of its characters is a combining mark or has a singleton decomposition.
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

std::vector<ChangedCharacter> normal_form(std::string_view text, NormalForm form) {
  Decomposition decomposition(form == NormalForm::kKC || form == NormalForm::kKD);
  for (size_t at = 0; at < text.size();) decomposition.add(next_character(text, at));
  std::vector<ChangedCharacter> characters = decomposition.take();
  const bool composes = form == NormalForm::kC || form == NormalForm::kKC;
  return composes ? compose(characters) : characters;
}

std::u32string lower_case(char32_t c) {
  if (c == 0x130) return {U'i', 0x307};
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)))};
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  if (c == 0x85) return true;
  const utf8proc_category_t category = category_of(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_word(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  if (is_letter(category) || is_mark(c) || category == UTF8PROC_CATEGORY_ND ||
      category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC) {
    return true;
  }
  // Zero-width non-joiner and joiner; circled and squared letters, whose Unicode category is not
  // "letter".
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

bool is_mark(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_MN; }

bool is_other(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  for (size_t next = 0; next < text.size() && is_space(next_character(text, next));) at = next;
  return at;
}

size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    size_t at = begin;
    if (!is_space(next_character(text, at))) break;
    end = begin;
  }
  return text.size() - end;
}

size_t grapheme_length(std::string_view text) {
  size_t end = 0;
  auto last = static_cast<utf8proc_int32_t>(next_character(text, end));
  utf8proc_int32_t state = 0;
  for (size_t next = end; next < text.size(); end = next) {
    const auto c = static_cast<utf8proc_int32_t>(next_character(text, next));
    if (utf8proc_grapheme_break_stateful(last, c, &state)) break;
    last = c;
  }
  return end;
}

}  // namespace am::data
