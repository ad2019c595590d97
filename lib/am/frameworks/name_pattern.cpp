#include "am/frameworks/name_pattern.h"

#include <algorithm>

#include "am/base/number.h"

namespace am::frameworks {

namespace {

constexpr size_t kMostDigits = 9;

bool is_marker(char c) { return c == '#' || c == '@'; }

// Returns leading digits that form a number in its usual notation: not "007".
std::optional<std::string_view> leading_number(std::string_view text) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0 || digits > kMostDigits || (digits > 1 && text[0] == '0')) return std::nullopt;
  return text.substr(0, digits);
}

}  // namespace

std::optional<NameNumbers> match_name(std::string_view pattern, std::string_view name) {
  NameNumbers numbers;
  size_t at = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (!is_marker(pattern[i])) {
      if (at == name.size() || name[at] != pattern[i]) return std::nullopt;
      ++at;
      continue;
    }
    if (const auto digits = leading_number(name.substr(at))) {
      numbers.push_back(parse_integer(*digits));
      at += digits->size();
      continue;
    }
    // Only a whole component (`.@.`) may be missing, because the name then lacks the number and a
    // dot.
    const bool component =
        i > 0 && pattern[i - 1] == '.' && i + 1 < pattern.size() && pattern[i + 1] == '.';
    if (!component) return std::nullopt;
    numbers.emplace_back();
    ++i;
  }
  if (at != name.size()) return std::nullopt;
  return numbers;
}

std::string fill_name(std::string_view pattern, const std::vector<int64_t>& numbers) {
  std::string name;
  size_t next = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (!is_marker(pattern[i])) {
      name += pattern[i];
      continue;
    }
    const int64_t number = numbers.at(next++);
    if (pattern[i] == '#') {
      name += std::to_string(number);
    } else {
      ++i;
    }
  }
  return name;
}

bool has_word(std::string_view list, std::string_view word) {
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(' ', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace am::frameworks
