// Writes numbers and texts as the operator % and text.format() of Python do.
//
//   FormatSpec spec;
//   spec.width = 6;
//   spec.type = 'x';
//   format_integer(heap, 255, spec);       // "    ff"
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/chat/value.h"

namespace am::chat {

// Form of a value: the part of a % conversion behind the percent sign, or of a replacement
// field behind its colon.
struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =, or none
  char sign = '-';    // '-': only of negative numbers, '+', ' '
  bool alternate = false, zero = false;
  Int width = 0;
  std::optional<Int> precision;
  char grouping = '\0';
  char type = '\0';
};

// Takes a decimal number off the front of the text; nothing if there is none.
std::optional<Int> take_number(std::string_view& text);
// The first `count` characters; all if there is no count.
std::string_view first_characters(std::string_view text, const std::optional<Int>& count);
// Pads a text to the width. `sign_size` bytes at its beginning stay in front of fill characters
// that the align '=' puts behind the sign.
std::string padded(Heap& heap, std::string text, const FormatSpec& spec, char align,
                   size_t sign_size);
// Throw Failure for a precision beyond 1000, and, for the type c, if the value is not the code of a
// character.
std::string format_float(Heap& heap, double value, const FormatSpec& spec);
std::string format_integer(Heap& heap, Int value, const FormatSpec& spec);

}  // namespace am::chat
