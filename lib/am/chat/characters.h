// Characters of UTF-8 text by Python's rules: positions of code points, white space, letter case.
//
//   length("h\u00e9");                     // 2
//   upper("stra\u00dfe");                  // "STRASSE"
//
// All texts must be valid UTF-8. The classes and cases of characters are those of the linked
// utf8proc library, for example of Unicode 14 with utf8proc 2.8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace am::chat {

// Returns the number of code points.
size_t length(std::string_view text);
// Returns the byte offset of the code point with this index, counted from 0; the text's size if the
// index is too large.
size_t byte_offset(std::string_view text, size_t index);
// Returns the code point that begins at byte `at`, and moves `at` to the byte after the code point.
// Returns U+FFFD and moves by one byte if the UTF-8 is invalid.
char32_t next_character(std::string_view text, size_t& at);
void append_character(std::string& out, char32_t character);

// Whether Python's str.isspace() is true for the character, and \s of Python's re matches it.
bool is_space(char32_t character);
// Python's str.isalpha(), str.isdecimal() and str.isnumeric() of one character, except that
// is_numeric() is false for ideographs of numbers such as U+4E00.
bool is_letter(char32_t character);
bool is_decimal(char32_t character);
bool is_numeric(char32_t character);
// Returns the value of a digit of a base up to 36, or 99 for any other character.
int digit_value(char character);
// Whether \w of Python's re matches the character.
bool is_word(char32_t character);
bool is_upper(char32_t character);
bool is_lower(char32_t character);
// Whether Python's repr() shows the character without an escape sequence.
bool is_printable(char32_t character);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
// Python's str.title(): a letter that does not follow a cased character is in title case, and other
// letters are in lower case.
std::string title(std::string_view text);
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);
std::string fold_case(std::string_view text);

// Return the text without the white space at the beginning or at the end. If `set` is not null,
// remove the characters in `set` instead of white space.
std::string_view strip_left(std::string_view text, const std::string_view* set = nullptr);
std::string_view strip_right(std::string_view text, const std::string_view* set = nullptr);

}  // namespace am::chat
