// Integer arithmetic, and parsing and comparing of numbers.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace am {

// Returns a / b, rounded up. Requires a >= 0 and b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Converts an integer to double, for formulas in double, without a compiler warning.
constexpr double as_double(int64_t value) { return static_cast<double>(value); }

// Parses a text that is an integer, for example "42" or "-7". Returns nothing for an empty text,
// blanks, a sign alone, a fraction, or a number that does not fit in 64 bits.
inline std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Parses a text that is a number as strtod() reads it, for example "42", "3e-4" or "inf". Returns
// nothing for an empty text, or if anything follows the number.
inline std::optional<double> parse_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  return value;
}

// Comparison operators, as users write them in conditions.
inline constexpr std::array<std::string_view, 6> kComparisons = {"<", "<=", ">", ">=", "==", "!="};

// Returns whether `left` and `right` satisfy the comparison, which must be one of kComparisons.
constexpr bool compare(double left, std::string_view comparison, double right) {
  if (comparison == "<") return left < right;
  if (comparison == "<=") return left <= right;
  if (comparison == ">") return left > right;
  if (comparison == ">=") return left >= right;
  return (left == right) == (comparison == "==");
}

}  // namespace am
