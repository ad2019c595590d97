// A place in a text that is read from left to right: what the parsers of small notations stand on.
// Blanks before what is asked for are passed over.
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

  // The next character, '\0' at the end.
  char peek() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())) != 0) pass(1);
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool take(char c) {
    if (peek() != c) return false;
    pass(1);
    return true;
  }
  // What stands here of characters of which `is` says so; may be empty.
  template <typename Is>
  std::string_view take_while(const Is& is) {
    peek();
    size_t count = 0;
    while (count < rest_.size() && is(rest_[count])) ++count;
    return pass(count);
  }
  // So many characters, blanks too; no more than rest() has.
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
