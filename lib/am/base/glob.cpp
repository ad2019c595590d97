// Implements glob_match(), glob_problem() and is_glob() of text.h. glob_match() reads the pattern
// once, and tracks at which positions of the text a match can be. No pattern therefore takes
// exponential time.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am {
namespace {

constexpr int kDeepestGlob = 64;
constexpr size_t kLongestGlob = size_t{16} << 10;

// positions[i] is 1 if the pattern read so far can match the first i characters of the text.
using Positions = std::vector<char>;

// Returns a vector with, for each '{' of the pattern, the index of its '}'. The index is 0 for a
// '{' without a '}', which is a literal character.
std::vector<uint32_t> closing_braces(std::string_view pattern) {
  std::vector<uint32_t> closing(pattern.size(), 0);
  std::vector<size_t> open;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{') open.push_back(i);
    if (pattern[i] == '}' && !open.empty()) {
      closing[open.back()] = static_cast<uint32_t>(i);
      open.pop_back();
    }
  }
  return closing;
}

class Matcher {
 public:
  Matcher(std::string_view pattern, std::string_view text)
      : pattern_(pattern), text_(text), closing_(closing_braces(pattern)) {
    const size_t last = pattern.rfind(']');
    last_bracket_ = last == std::string_view::npos ? 0 : last;
  }

  bool matches() const {
    Positions start(text_.size() + 1, 0);
    start[0] = 1;
    return advance(0, pattern_.size(), std::move(start)).back() != 0;
  }

 private:
  // Returns the positions in the text at which a match of pattern characters [i, end) can end if it
  // begins at one of the positions `at`.
  Positions advance(size_t i, size_t end, Positions at) const {
    while (i < end) {
      const char c = pattern_[i];
      if (c == '*') {
        const auto first = std::find(at.begin(), at.end(), 1);
        std::fill(first, at.end(), 1);
        ++i;
      } else if (c == '?') {
        at = step(at, [](char) { return true; });
        ++i;
      } else if (const size_t close = c == '[' ? set_end(i, end) : 0; close != 0) {
        const std::string_view set = pattern_.substr(i + 1, close - i - 1);
        at = step(at, [&](char x) { return in_set(set, x); });
        i = close + 1;
      } else if (const size_t brace = c == '{' ? closing_[i] : 0; brace != 0 && brace < end) {
        at = any_of(i + 1, brace, at);
        i = brace + 1;
      } else {
        at = step(at, [&](char x) { return x == c; });
        ++i;
      }
    }
    return at;
  }

  template <typename Accepts>
  Positions step(const Positions& at, Accepts accepts) const {
    Positions next(at.size(), 0);
    for (size_t i = 0; i < text_.size(); ++i) next[i + 1] = at[i] && accepts(text_[i]);
    return next;
  }

  // Returns the positions in the text at which a match of one of several alternatives can end if it
  // begins at one of the positions `at`. The alternatives, such as "a,b{c,d}", are pattern
  // characters [begin, end).
  Positions any_of(size_t begin, size_t end, const Positions& at) const {
    Positions next(at.size(), 0);
    for (size_t i = begin; i <= end; ++i) {
      if (i < end && pattern_[i] == '{' && closing_[i] != 0 && closing_[i] < end) {
        i = closing_[i];
      } else if (i == end || pattern_[i] == ',') {
        const Positions reached = advance(begin, i, at);
        for (size_t k = 0; k < next.size(); ++k) next[k] = next[k] || reached[k];
        begin = i + 1;
      }
    }
    return next;
  }

  // Returns the index of the ']' that closes the '[' at `open`. Returns 0 if there is none before
  // `end`; the '[' is then a literal character.
  size_t set_end(size_t open, size_t end) const {
    size_t first = open + 1;
    if (first < end && pattern_[first] == '!') ++first;
    if (first + 1 > last_bracket_) return 0;
    const size_t close = pattern_.find(']', first + 1);  // a ']' in first position is a member
    return close == std::string_view::npos || close >= end ? 0 : close;
  }

  static bool in_set(std::string_view set, char c) {
    const bool negated = set.size() > 1 && set[0] == '!';
    if (negated) set.remove_prefix(1);
    bool found = false;
    for (size_t i = 0; i < set.size(); ++i) {
      if (i + 2 < set.size() && set[i + 1] == '-') {
        found = found || (set[i] <= c && c <= set[i + 2]);
        i += 2;
      } else {
        found = found || set[i] == c;
      }
    }
    return found != negated;
  }

  std::string_view pattern_;
  std::string_view text_;
  std::vector<uint32_t> closing_;
  size_t last_bracket_ = 0;
};

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  // Text before the first and after the last special character is compared literally.
  const size_t first = pattern.find_first_of("*?[{");
  if (first == std::string_view::npos) return pattern == text;
  const std::string_view before = pattern.substr(0, first);
  const std::string_view after = pattern.substr(pattern.find_last_of("*?[]{}") + 1);
  if (text.size() < before.size() + after.size()) return false;
  if (!starts_with(text, before) || !ends_with(text, after)) return false;
  const auto between = [&](std::string_view all) {
    return all.substr(before.size(), all.size() - before.size() - after.size());
  };
  if (const std::string problem = glob_problem(pattern); !problem.empty()) {
    throw Error(ErrorKind::kUsage, cat("a pattern ", problem));
  }
  return Matcher(between(pattern), between(text)).matches();
}

std::string glob_problem(std::string_view pattern) {
  if (!is_glob(pattern)) return {};
  if (pattern.size() > kLongestGlob) {
    return cat("has ", pattern.size(), " characters; the limit is ", kLongestGlob);
  }
  int depth = 0;
  for (const char c : pattern) {
    depth += c == '{' ? 1 : c == '}' && depth > 0 ? -1 : 0;
    if (depth > kDeepestGlob) return cat("nests braces more than ", kDeepestGlob, " levels deep");
  }
  return {};
}

bool is_glob(std::string_view text) { return text.find_first_of("*?[{") != std::string_view::npos; }

}  // namespace am
