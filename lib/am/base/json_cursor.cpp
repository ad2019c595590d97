#include "am/base/json_cursor.h"

#include <algorithm>
#include <array>
#include <limits>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/text.h"

namespace am {

void JsonCursor::fail(std::string_view what) const {
  throw Error(ErrorKind::kFormat, cat(where_, ": byte ", at_, ": ", what),
              "the file was cut off or changed; copy it again");
}

// Skips white space and returns the next character; 0 at the end.
char JsonCursor::peek() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
    ++at_;
  }
  return '\0';
}

void JsonCursor::begin(char bracket) {
  if (peek() != bracket) fail(bracket == '{' ? "expected an object" : "expected an array");
  ++at_;
  first_ = true;
}

bool JsonCursor::next(char bracket) {
  const char c = peek();
  if (c == bracket) {
    ++at_;
    first_ = false;
    return false;
  }
  if (!first_) {
    if (c != ',') fail("expected a comma");
    ++at_;
    peek();
  }
  first_ = false;
  return true;
}

bool JsonCursor::next_key(std::string& key) {
  if (!next('}')) return false;
  key = text();
  if (peek() != ':') fail("expected a colon");
  ++at_;
  return true;
}

int64_t JsonCursor::natural() {
  peek();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const size_t begin = at_;
  int64_t value = 0;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
    const int64_t digit = text_[at_] - '0';
    if (value > (kMost - digit) / 10) fail("the number is larger than 2^63 - 1");
    value = 10 * value + digit;
    ++at_;
  }
  const bool fraction =
      at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E');
  if (at_ == begin || fraction) fail("expected an integer of at least 0");
  return value;
}

// Consumes a string, and returns its JSON text, quotes and escapes included.
std::string_view JsonCursor::quoted() {
  if (peek() != '"') fail("expected a string");
  const size_t begin = at_++;
  while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
  if (at_ >= text_.size()) fail("the string is not closed");
  ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string JsonCursor::text() {
  const std::string_view token = quoted();
  if (token.find('\\') == std::string_view::npos) {
    return std::string(token.substr(1, token.size() - 2));
  }
  const auto parsed = Json::parse(token, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_string()) fail("the string has an unknown escape sequence");
  return parsed.get<std::string>();
}

void JsonCursor::skip() {
  const char c = peek();
  if (c == '"') {
    quoted();
  } else if (c == '{' || c == '[') {
    skip_brackets();
  } else {
    constexpr std::string_view kEnds = " \n\r\t,:]}";
    if (c == '\0') fail("the value is cut off");
    if (kEnds.find(c) != std::string_view::npos) fail("expected a value");
    at_ = std::min(text_.find_first_of(kEnds, at_), text_.size());
  }
}

// Skips an array or object. Digits and commas, the bulk of large files, cost one table lookup each.
void JsonCursor::skip_brackets() {
  static constexpr std::array<bool, 256> kStops = [] {
    std::array<bool, 256> stops = {};
    for (const char c : {'"', '{', '[', '}', ']', '\0'})
      stops[static_cast<unsigned char>(c)] = true;
    return stops;
  }();
  size_t depth = 0;
  do {
    while (at_ < text_.size() && !kStops[static_cast<unsigned char>(text_[at_])]) ++at_;
    if (at_ >= text_.size() || text_[at_] == '\0') fail("the value is cut off");
    if (text_[at_] == '"') {
      quoted();
      continue;
    }
    const bool opens = text_[at_] == '{' || text_[at_] == '[';
    depth = opens ? depth + 1 : depth - 1;
    ++at_;
  } while (depth > 0);
}

void JsonCursor::end() {
  if (peek() != '\0' || at_ < text_.size()) fail("text follows the first value");
}

}  // namespace am
