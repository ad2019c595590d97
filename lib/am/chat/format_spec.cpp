#include "am/chat/format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "am/base/text.h"
#include "am/chat/characters.h"

namespace am::chat {
namespace {

constexpr Int kLargestPrecision = 1000;

std::string grouped(const std::string& digits, char separator, size_t group) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string upper_ascii(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return text;
}

std::string sign_of(bool negative, const FormatSpec& spec) {
  return negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
}

// Returns the absolute value as printf writes it with %e, %f or %g, or "inf" or "nan". `type` is
// 'e', 'f' or 'g'.
std::string float_digits(double value, char type, Int precision, bool alternate) {
  if (precision > kLargestPrecision) {
    throw Failure(cat("the precision is beyond the limit of ", int_text(kLargestPrecision)));
  }
  value = std::abs(value);
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : "inf";
  const std::string pattern = cat("%", alternate ? "#" : "", ".*", type);
  std::string out(static_cast<size_t>(precision) + 330, '\0');
  const int size =
      std::snprintf(out.data(), out.size(), pattern.c_str(), static_cast<int>(precision), value);
  out.resize(static_cast<size_t>(size));
  return out;
}

}  // namespace

std::optional<Int> take_number(std::string_view& text) {
  Int out = 0;
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    out = std::min(out * 10 + (text[digits++] - '0'), Int{INT32_MAX});
  }
  text.remove_prefix(digits);
  return digits > 0 ? std::optional<Int>(out) : std::nullopt;
}

std::string_view first_characters(std::string_view text, const std::optional<Int>& count) {
  return count ? text.substr(0, byte_offset(text, static_cast<size_t>(*count))) : text;
}

std::string padded(Heap& heap, std::string text, const FormatSpec& spec, char align,
                   size_t sign_size) {
  const Int missing = spec.width - static_cast<Int>(length(text));
  if (missing <= 0) return text;
  if (missing > heap.bytes_left() / 4) heap.charge(INT64_MAX);
  std::string left, right;
  const Int before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  for (Int i = 0; i < before; ++i) left += spec.fill;
  for (Int i = before; i < missing; ++i) right += spec.fill;
  if (align == '=') return text.insert(sign_size, left);
  return left + text + right;
}

std::string format_float(Heap& heap, double value, const FormatSpec& spec) {
  const char type = spec.type;
  const char low = static_cast<char>(type | 0x20);
  std::string digits;
  if (type == '\0' && !spec.precision) {
    digits = float_text(std::abs(value));
  } else if (type == '%') {
    digits = float_digits(value * 100, 'f', spec.precision.value_or(6), spec.alternate) + "%";
  } else if (type == '\0' || low == 'g' || type == 'n') {
    digits = float_digits(value, 'g', std::max(spec.precision.value_or(6), Int{1}), spec.alternate);
    if (type == '\0' && digits.find_first_of(".en") == std::string::npos) digits += ".0";
  } else {
    digits = float_digits(value, low, spec.precision.value_or(6), spec.alternate);
  }
  if (spec.grouping != '\0' && std::isfinite(value)) {
    const size_t end = std::min(digits.find_first_of(".e%"), digits.size());
    digits = grouped(digits.substr(0, end), spec.grouping, 3) + digits.substr(end);
  }
  if (type >= 'A' && type <= 'Z') digits = upper_ascii(digits);
  const std::string sign = sign_of(std::signbit(value) && !std::isnan(value), spec);
  return padded(heap, sign + digits, spec, spec.align == '\0' ? '>' : spec.align, sign.size());
}

std::string format_integer(Heap& heap, Int value, const FormatSpec& spec) {
  const char low = static_cast<char>(spec.type | 0x20);
  if (spec.type != '\0' && std::string_view("efg").find(low) != std::string_view::npos) {
    return format_float(heap, static_cast<double>(value), spec);
  }
  if (spec.type == '%') return format_float(heap, static_cast<double>(value), spec);
  if (spec.type == 'c') {
    if (value < 0 || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      throw Failure("%c needs the code of a Unicode character");
    }
    std::string character;
    append_character(character, static_cast<char32_t>(value));
    return padded(heap, character, spec, spec.align == '\0' ? '<' : spec.align, 0);
  }
  const int base = low == 'x' ? 16 : low == 'o' ? 8 : low == 'b' && spec.type == 'b' ? 2 : 10;
  std::string digits = int_text(value, base);
  if (value < 0) digits.erase(0, 1);
  if (spec.precision) {  // the least number of digits of a % conversion
    const Int missing = *spec.precision - static_cast<Int>(digits.size());
    if (missing > heap.bytes_left()) heap.charge(INT64_MAX);
    digits.insert(0, static_cast<size_t>(std::max(missing, Int{0})), '0');
  }
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping, base == 10 ? 3 : 4);
  std::string sign = sign_of(value < 0, spec);
  if (spec.alternate && base != 10) sign += base == 16 ? "0x" : base == 8 ? "0o" : "0b";
  digits = sign + digits;
  if (spec.type == 'X') digits = upper_ascii(digits);
  return padded(heap, digits, spec, spec.align == '\0' ? '>' : spec.align, sign.size());
}

}  // namespace am::chat
