#include "am/base/text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

namespace am {

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string join(std::span<const int64_t> parts, std::string_view separator,
                 std::string_view last) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    if (i > 0) out += is_last && !last.empty() ? last : separator;
    out += std::to_string(parts[i]);
  }
  return out;
}

std::string shape_text(std::span<const int64_t> shape) { return "[" + join(shape, ", ") + "]"; }

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

// ---- misspellings

int edit_distance(std::string_view a, std::string_view b) {
  // Rows of the dynamic programming table; the row before the last is needed for transpositions.
  std::vector<int> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

namespace {

// Returns the word in lower case, with "_" for each "-", "." and blank, because nearest() ignores
// differences of case and separators.
std::string folded(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-' || c == '.' || c == ' ') c = '_';
  }
  return out;
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  const std::string typed = folded(word);
  const std::string* best = nullptr;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    const int longer = static_cast<int>(std::max(typed.size(), candidate.size()));
    const int shorter = static_cast<int>(std::min(typed.size(), candidate.size()));
    const int most = std::max(1, longer / 3);
    if (longer - shorter > most)
      continue;  // the lengths alone differ by more than the largest accepted distance
    const int distance = edit_distance(typed, folded(candidate));
    if (distance > most) continue;
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best != nullptr) return *best;
  // `word` may be an abbreviation, for example "tp" for "tp_size": returns the shortest candidate
  // that begins with `word`.
  if (typed.size() < 2) return std::nullopt;
  for (const std::string& candidate : candidates) {
    if (!starts_with(folded(candidate), typed)) continue;
    if (best == nullptr || candidate.size() < best->size()) best = &candidate;
  }
  return best != nullptr ? std::optional<std::string>(*best) : std::nullopt;
}

// ---- order and width

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the run of digits that starts at `at`, without leading zeros, and moves `at` to the end
// of the run.
std::string_view take_number(std::string_view text, size_t& at) {
  while (at + 1 < text.size() && text[at] == '0' && is_digit(text[at + 1])) ++at;
  const size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  return text.substr(begin, at - begin);
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  // Names of tensors share long prefixes, so the comparison starts at the first difference, or at
  // the beginning of the number that contains the difference.
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  auto i = static_cast<size_t>(differ - a.begin());
  while (i > 0 && is_digit(a[i - 1])) --i;
  size_t j = i;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view x = take_number(a, i);
      const std::string_view y = take_number(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      continue;
    }
    if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
    ++i;
    ++j;
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;  // here the texts differ only in leading zeros, or are equal
}

size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool too_large = lead == 0xF4 && byte(1) >= 0x90;
    return continues(1) && continues(2) && continues(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

bool is_utf8(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  while (!text.empty()) {
    uint64_t word = kHighBits;  // eight bytes at a time while they are ASCII
    if (text.size() >= sizeof word) std::memcpy(&word, text.data(), sizeof word);
    if ((word & kHighBits) == 0) {
      text.remove_prefix(sizeof word);
      continue;
    }
    const size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

int character_count(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // not a continuation byte
  }));
}

namespace {

struct CodeRange {
  uint32_t first, last;
};

// kNoColumn lists the most common characters that occupy no terminal column: combining marks,
// zero-width characters and variation selectors. kTwoColumns lists the characters of two columns:
// East Asian Wide and Fullwidth, and emoji. The widths are much as in the C library's wcwidth().
constexpr std::array<CodeRange, 8> kNoColumn = {{{0x300, 0x36F},
                                                 {0x483, 0x489},
                                                 {0x591, 0x5BD},
                                                 {0x64B, 0x65F},
                                                 {0x200B, 0x200F},
                                                 {0x20D0, 0x20F0},
                                                 {0xFE00, 0xFE0F},
                                                 {0xFE20, 0xFE2F}}};
constexpr std::array<CodeRange, 11> kTwoColumns = {{{0x1100, 0x115F},
                                                    {0x2E80, 0x303E},
                                                    {0x3041, 0x33FF},
                                                    {0x3400, 0x4DBF},
                                                    {0x4E00, 0xA4CF},
                                                    {0xA960, 0xA97C},
                                                    {0xAC00, 0xD7A3},
                                                    {0xF900, 0xFAFF},
                                                    {0xFE30, 0xFE6F},
                                                    {0xFF00, 0xFF60},
                                                    {0x1F300, 0x3FFFD}}};

int columns_of(uint32_t code) {
  if (code < kNoColumn.front().first) return 1;
  const auto in = [code](const CodeRange& range) {
    return range.first <= code && code <= range.last;
  };
  if (std::any_of(kNoColumn.begin(), kNoColumn.end(), in)) return 0;
  return std::any_of(kTwoColumns.begin(), kTwoColumns.end(), in) ? 2 : 1;
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    uint32_t code = first < 0x80 ? first
                                 : first & (first < 0xE0   ? 0x1FU
                                            : first < 0xF0 ? 0x0FU
                                                           : 0x07U);
    for (++at; at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; ++at) {
      code = code << 6U | (static_cast<unsigned char>(text[at]) & 0x3FU);
    }
    width += columns_of(code);
  }
  return width;
}

}  // namespace am
