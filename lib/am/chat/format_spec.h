// Formats numbers and texts as Python's operator % and str.format() do.
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

// Format of a value: the part of a % conversion after the percent sign, or of a replacement field
// after its colon.
struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =; '\0': the default of the value's type
  char sign = '-';    // '-': only negative numbers have a sign; '+' or ' ': sign of all others
  bool alternate = false, zero = false;
  Int width = 0;
  std::optional<Int> precision;
  char grouping = '\0';
  char type = '\0';
};

// Removes the decimal digits at the front of the text, and returns their value, or 2^31 - 1 if the
// value is larger. Returns nullopt if the text does not begin with a digit.
std::optional<Int> take_number(std::string_view& text);
// Returns the first `count` characters; all characters if `count` is nullopt.
std::string_view first_characters(std::string_view text, const std::optional<Int>& count);
// Pads a text to spec.width characters. `align` replaces spec.align. With '=', the fill characters
// are inserted after the sign, which is the first `sign_size` bytes of the text.
std::string padded(Heap& heap, std::string text, const FormatSpec& spec, char align,
                   size_t sign_size);
// Return the formatted number. format_float() throws Failure if the precision is above 1000.
// format_integer() throws Failure for the type 'c' if the value is not the code of a Unicode
// character. Both functions throw Failure if the result exceeds the heap's limit of bytes.
std::string format_float(Heap& heap, double value, const FormatSpec& spec);
std::string format_integer(Heap& heap, Int value, const FormatSpec& spec);

}  // namespace am::chat
