// Characters of UTF-8 text by Python's rules: positions of code points, white space, letter case.
//
//   length("h\u00e9");                     // 2
//   upper("stra\u00dfe");                  // "STRASSE"
//
// All texts must be valid UTF-8. Classes are those of utf8proc 2.8 (Unicode 14).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace am::chat {

// Number of code points.
size_t length(std::string_view text);
// Byte offset of the code point number `index`, from 0; the text's size if no such code point
// exists.
size_t byte_offset(std::string_view text, size_t index);
// Returns the code point that begins at byte `at`, and moves `at` behind it.
char32_t next_character(std::string_view text, size_t& at);
void append_character(std::string& out, char32_t character);

// str.isspace(), and \s of Python's re.
bool is_space(char32_t character);
// str.isalpha(), str.isdecimal() and str.isnumeric() of one character.
bool is_letter(char32_t character);
bool is_decimal(char32_t character);
bool is_numeric(char32_t character);
// Returns the value of a digit of a base up to 36, or 99 for any other character.
int digit_value(char character);
// Whether \w of Python's re matches the character.
bool is_word(char32_t character);
bool is_upper(char32_t character);
bool is_lower(char32_t character);
// Whether repr() shows the character as itself.
bool is_printable(char32_t character);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
// str.title(): a letter that follows a character without case is in title case.
std::string title(std::string_view text);
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);
std::string fold_case(std::string_view text);

// Remove characters at the beginning, or at the end: white space, or the characters in `set` if it
// is not null.
std::string_view strip_left(std::string_view text, const std::string_view* set = nullptr);
std::string_view strip_right(std::string_view text, const std::string_view* set = nullptr);

}  // namespace am::chat
