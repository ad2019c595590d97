// Unicode functions for tokenizers: UTF-8, normalization forms, character classes. The library
// utf8proc implements them.
//
// All functions with a parameter `text` require valid UTF-8, except valid_utf8() and utf8_step().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace am::data {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
// U+2581, the character that SentencePiece writes for a space.
inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

// One character, or a run of invalid bytes, at the front of a text. `length` is in bytes.
struct Utf8Step {
  size_t length = 0;
  bool valid = false;
};
// Returns the first step of `text`, which is not empty. An invalid step covers the longest
// beginning of a valid character, or otherwise one byte, as in Python's decode(errors="replace").
Utf8Step utf8_step(std::string_view text);

// Returns the text with each invalid Utf8Step replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

// Returns the code point at byte `at` of the text, and moves `at` to the next code point.
char32_t next_character(std::string_view text, size_t& at);
// Appends one code point, encoded as UTF-8.
void append_utf8(std::string& out, char32_t code_point);

// Returns the text in normalization form C (Unicode annex 15).
std::string normalize_nfc(std::string_view text);

// One character of a changed text. `change` is 0 if the character replaces the next character of
// the old text, -n if the character replaces the next n + 1 characters, and 1 if it is inserted.
struct ChangedCharacter {
  char32_t character;
  int change;
};
enum class NormalForm { kC, kD, kKC, kKD };
// Returns the characters of the text in a normalization form, each with its change.
std::vector<ChangedCharacter> normal_form(std::string_view text, NormalForm form);
// Returns the lower case of one character: one character, or two for U+0130.
std::u32string lower_case(char32_t c);

// Whether the character has Unicode's property White_Space.
bool is_space(char32_t c);
// Whether the character belongs to words: "\w" in Unicode Technical Standard 18.
bool is_word(char32_t c);
bool is_mark(char32_t c);             // categories Mn, Mc and Me
bool is_nonspacing_mark(char32_t c);  // category Mn
bool is_other(char32_t c);            // categories Cc, Cf and Co

// Return the number of bytes of white space at the beginning, or at the end, of a text.
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);

// Returns the number of bytes of the extended grapheme cluster (Unicode annex 29) at the front of
// `text`, which is not empty.
size_t grapheme_length(std::string_view text);

}  // namespace am::data
