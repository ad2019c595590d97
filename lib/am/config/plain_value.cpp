// Implements plain_value(), which converts an unquoted YAML word to a value.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "am/base/number.h"
#include "am/config/yaml_reader.h"

namespace am::config {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Parses an integer such as "12", "+7", "1_000" or "0x10". Returns nothing if the word is not an
// integer or does not fit in 64 bits.
std::optional<int64_t> integer_of(std::string_view word) {
  std::string digits(word);
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  std::string_view rest = digits;
  if (rest.size() > 1 && rest.front() == '+') rest.remove_prefix(1);
  if (word.substr(word.find_first_not_of("+-"), 1) == "_") return std::nullopt;
  if (rest.substr(0, 2) == "0x") {
    int64_t value = 0;
    const auto [end, status] =
        std::from_chars(rest.data() + 2, rest.data() + rest.size(), value, 16);
    const bool whole = rest.size() > 2 && end == rest.data() + rest.size();
    return status == std::errc() && whole && value >= 0 ? std::optional(value) : std::nullopt;
  }
  return parse_integer(rest);
}

std::optional<double> number_of(std::string_view word) {
  if (is_one_of(word, {".inf", "+.inf", ".Inf", "inf"})) {
    return std::numeric_limits<double>::infinity();
  }
  if (is_one_of(word, {"-.inf", "-.Inf", "-inf"})) return -std::numeric_limits<double>::infinity();
  if (is_one_of(word, {".nan", ".NaN", "nan"})) return std::nan("");
  if (word.find_first_of("0123456789") == std::string_view::npos) return std::nullopt;
  if (word.front() == '+') word.remove_prefix(1);
  double value = 0.0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (end != word.data() + word.size()) return std::nullopt;
  if (status == std::errc::result_out_of_range) {
    const size_t exponent = word.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos && word.substr(exponent + 1, 1) == "-";
    value = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    if (word.front() == '-') value = -value;
  }
  return status == std::errc::invalid_argument ? std::nullopt : std::optional(value);
}

}  // namespace

std::optional<Value> plain_value(std::string_view word, const Span& span) {
  if (is_one_of(word, {"", "~", "null", "Null", "NULL"})) return std::nullopt;
  if (is_one_of(word, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})) {
    return value_of(true, span);
  }
  if (is_one_of(word, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})) {
    return value_of(false, span);
  }
  if (word.find_first_not_of("+-") <= 1) {  // a number has at most one sign
    if (const auto value = integer_of(word)) return value_of(*value, span);
    if (const auto value = number_of(word)) return value_of(*value, span);
  }
  return value_of(std::string(word), span);
}

}  // namespace am::config
