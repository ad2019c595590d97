// A cursor over a text for the parsers of small notations. Blanks before each token are skipped.
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

  // Skips blanks and returns the next character, '\0' at the end.
  char peek() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())) != 0) pass(1);
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool take(char c) {
    if (peek() != c) return false;
    pass(1);
    return true;
  }
  // Returns the run of characters for which `is` is true; may be empty.
  template <typename Is>
  std::string_view take_while(const Is& is) {
    peek();
    size_t count = 0;
    while (count < rest_.size() && is(rest_[count])) ++count;
    return pass(count);
  }
  // Consumes and returns the next `count` characters, including blanks. `count` must be at most
  // rest().size().
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
