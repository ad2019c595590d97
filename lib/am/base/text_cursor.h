// A cursor over a text for the parsers of small notations. White space before each token is
// skipped.
//
//   TextCursor at("norm(w)");
//   at.take_while(is_letter);   // "norm"
//   at.take('(');               // true
#pragma once

#include <cctype>
#include <string_view>

namespace am {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : rest_(text) {}

  // Skips white space and returns the next character without consuming it; '\0' at the end.
  char peek() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())) != 0) pass(1);
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool take(char c) {
    if (peek() != c) return false;
    pass(1);
    return true;
  }
  // Skips white space, then consumes and returns the characters up to the first for which `is` is
  // false. The result may be empty.
  template <typename Is>
  std::string_view take_while(const Is& is) {
    peek();
    size_t count = 0;
    while (count < rest_.size() && is(rest_[count])) ++count;
    return pass(count);
  }
  // Consumes and returns the next `count` characters, including white space. `count` must be at
  // most rest().size().
  std::string_view pass(size_t count) {
    const std::string_view passed = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return passed;
  }

  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace am
