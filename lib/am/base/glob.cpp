// glob_match, declared in text.h: patterns as sets of positions, so that no pattern takes
// exponential time.
#include <algorithm>
#include <vector>

#include "am/base/text.h"

namespace am {
namespace {

// positions[i] is true when what was read of the pattern can match the first i characters of the
// text.
using Positions = std::vector<char>;

class Matcher {
 public:
  explicit Matcher(std::string_view text) : text_(text) {}

  bool matches(std::string_view pattern) const {
    Positions start(text_.size() + 1, 0);
    start[0] = 1;
    return advance(pattern, std::move(start)).back() != 0;
  }

 private:
  Positions advance(std::string_view pattern, Positions at) const {
    size_t i = 0;
    while (i < pattern.size()) {
      const char c = pattern[i];
      if (c == '*') {
        const auto first = std::find(at.begin(), at.end(), 1);
        std::fill(first, at.end(), 1);
        ++i;
      } else if (c == '?') {
        at = step(at, [](char) { return true; });
        ++i;
      } else if (const size_t end = c == '[' ? set_end(pattern, i) : 0; end != 0) {
        const std::string_view set = pattern.substr(i + 1, end - i - 1);
        at = step(at, [&](char x) { return in_set(set, x); });
        i = end + 1;
      } else if (const size_t close = c == '{' ? brace_end(pattern, i) : 0; close != 0) {
        at = any_of(pattern.substr(i + 1, close - i - 1), at);
        i = close + 1;
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

  // The union over the alternatives of "a,b{c,d}".
  Positions any_of(std::string_view alternatives, const Positions& at) const {
    Positions next(at.size(), 0);
    size_t begin = 0;
    int depth = 0;
    for (size_t i = 0; i <= alternatives.size(); ++i) {
      const bool ends = i == alternatives.size() || (alternatives[i] == ',' && depth == 0);
      if (ends) {
        const Positions reached = advance(alternatives.substr(begin, i - begin), at);
        for (size_t k = 0; k < next.size(); ++k) next[k] = next[k] || reached[k];
        begin = i + 1;
      } else if (alternatives[i] == '{') {
        ++depth;
      } else if (alternatives[i] == '}') {
        --depth;
      }
    }
    return next;
  }

  // Index of the closing bracket, 0 when there is none: then '[' stands for itself.
  static size_t set_end(std::string_view pattern, size_t open) {
    size_t first = open + 1;
    if (first < pattern.size() && pattern[first] == '!') ++first;
    const size_t end = pattern.find(']', first + 1);  // a ']' that comes first is a member
    return end == std::string_view::npos ? 0 : end;
  }

  static size_t brace_end(std::string_view pattern, size_t open) {
    int depth = 0;
    for (size_t i = open; i < pattern.size(); ++i) {
      if (pattern[i] == '{') ++depth;
      if (pattern[i] == '}' && --depth == 0) return i;
    }
    return 0;
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

  std::string_view text_;
};

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  // What stands before the first and after the last special character matches itself alone.
  const size_t first = pattern.find_first_of("*?[{");
  if (first == std::string_view::npos) return pattern == text;
  const std::string_view before = pattern.substr(0, first);
  const std::string_view after = pattern.substr(pattern.find_last_of("*?[]{}") + 1);
  if (text.size() < before.size() + after.size()) return false;
  if (!starts_with(text, before) || !ends_with(text, after)) return false;
  const auto between = [&](std::string_view all) {
    return all.substr(before.size(), all.size() - before.size() - after.size());
  };
  return Matcher(between(text)).matches(between(pattern));
}

bool is_glob(std::string_view text) { return text.find_first_of("*?[{") != std::string_view::npos; }

}  // namespace am
