// The Unicode functions that tokenizers need. unicode.cpp is the only user of utf8proc in this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace am::data {

// Returns the text with every byte that is not valid UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

// Returns the text in normalization form C (Unicode annex 15). `text` must be valid UTF-8.
std::string normalize_nfc(std::string_view text);

// Appends one code point, encoded as UTF-8.
void append_utf8(std::string& out, char32_t code_point);

// Return the number of bytes of white space at the beginning, or at the end, of valid UTF-8 text.
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);

}  // namespace am::data
