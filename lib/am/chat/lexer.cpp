#include "am/chat/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "am/base/text.h"
#include "am/chat/characters.h"

namespace am::chat {
namespace {

// Replaces the line breaks "\r\n" and "\r" by "\n". Removes one line break at the end of the text.
std::string with_plain_newlines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_outside();
    add(TokenType::kEnd);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw SyntaxFailure(message, line_); }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool looking_at(std::string_view text) const { return starts_with(rest(), text); }

  Token& add(TokenType type, std::string text = {}) {
    Token& token = tokens_.emplace_back();
    token.type = type;
    token.text = std::move(text);
    token.line = line_;
    return token;
  }

  void advance(size_t bytes) {
    const std::string_view passed = rest().substr(0, bytes);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    at_ += passed.size();
  }

  void skip_space() { advance(rest().size() - strip_left(rest()).size()); }

  // Consumes the end of a tag, with its sign (- or +) if there is one. Then consumes the white
  // space that the end of the tag removes. Returns false if the tag does not end here.
  bool take_end(std::string_view end, bool is_block) {
    const bool minus = looking_at(cat("-", end));
    const bool plus = is_block && looking_at(cat("+", end));
    if (!minus && !plus && !looking_at(end)) return false;
    advance(end.size() + (minus || plus ? 1 : 0));
    if (minus) skip_space();
    if (!minus && !plus && is_block && looking_at("\n")) advance(1);
    return true;
  }

  // Lexes text up to the next tag, and the tag.
  void lex_outside() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) return add_rest();
      const char kind = source_[tag + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    add_data(tag, sign, kind != '{');
    advance(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#') {
      lex_comment();
    } else if (kind == '{') {
      add(TokenType::kVariableBegin);
      lex_tag("}}", TokenType::kVariableEnd);
    } else if (!lex_raw()) {
      add(TokenType::kBlockBegin);
      lex_tag("%}", TokenType::kBlockEnd);
    }
  }

  void add_rest() {
    add(TokenType::kData, std::string(rest()));
    advance(rest().size());
  }

  // Adds a token for the text up to byte `end`, without the white space that the next tag removes.
  // The next tag begins at `end`, and `sign` is the character after its opening: - or +, or any
  // other character.
  void add_data(size_t end, char sign, bool is_block) {
    std::string_view text = rest().substr(0, end - at_);
    const size_t size = text.size();
    if (sign == '-') {
      text = strip_right(text);
    } else if (sign != '+' && is_block) {
      const size_t line_begin = text.rfind('\n') + 1;  // 0 if the text has no line break
      const bool from_line_begin = line_begin > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      if (from_line_begin && strip_left(text.substr(line_begin)).empty()) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) add(TokenType::kData, std::string(text));
    advance(size);
  }

  void lex_comment() {
    size_t end = source_.find("#}", at_);
    if (at_ == source_.size()) return;  // jinja2 accepts a template that ends with "{#"
    if (end == std::string::npos) fail("the comment has no end \"#}\"");
    if (end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+')) --end;
    advance(end - at_);
    take_end("#}", true);
  }

  // If the tag is `{% raw %}`, consumes the raw block including `{% endraw %}`, adds the block's
  // content as text, and returns true. Otherwise consumes nothing and returns false.
  bool lex_raw() {
    const size_t begin = at_;
    const int line = line_;
    if (!take_word("raw")) {
      at_ = begin;
      line_ = line;
      return false;
    }
    if (looking_at("-")) {
      advance(3);
      skip_space();
    } else {
      advance(2);
    }
    if (at_ == source_.size()) return true;
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string::npos; ++tag) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const size_t saved = at_;
      at_ = tag + (sign == '-' || sign == '+' ? 3 : 2);
      const int saved_line = line_;
      const bool is_end = take_word("endraw");
      const size_t after = at_;
      at_ = saved;
      line_ = saved_line;
      if (!is_end) continue;
      add_data(tag, sign, true);
      advance(after - at_);
      take_end("%}", true);
      return true;
    }
    fail("the raw block has no end \"{% endraw %}\"");
  }

  // Consumes white space and then `word`. Returns whether the tag consists of this word alone; if
  // not, the caller must restore the position.
  bool take_word(std::string_view word) {
    skip_space();
    if (!looking_at(word)) return false;
    advance(word.size());
    skip_space();
    return looking_at("%}") || looking_at("-%}") || (word == "endraw" && looking_at("+%}"));
  }

  void lex_tag(std::string_view end, TokenType end_type) {
    std::string open;  // stack of the closing brackets that must follow
    while (true) {
      if (open.empty() && take_end(end, end_type == TokenType::kBlockEnd)) {
        add(end_type);
        return;
      }
      if (at_ >= source_.size()) return;  // the parser reports the missing end
      size_t next = at_;
      const char32_t character = next_character(source_, next);
      const char c = source_[at_];
      if (is_space(character)) {
        skip_space();
      } else if (is_digit(c)) {
        lex_number();
      } else if (is_word(character)) {
        lex_name();
      } else if (c == '"' || c == '\'') {
        lex_string(c);
      } else {
        lex_operator(open);
      }
    }
  }

  // Returns the length in bytes of the digits at byte `from`. Single underscores may separate
  // digits.
  size_t digits_at(size_t from, int base = 10) const {
    size_t i = from;
    while (i < source_.size()) {
      const size_t digit = source_[i] == '_' && i > from ? i + 1 : i;
      if (digit >= source_.size() || digit_value(source_[digit]) >= base) break;
      i = digit + 1;
    }
    return i - from;
  }

  void lex_number() {
    const bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';
    size_t end = at_ + digits_at(at_);
    bool is_float = false;
    if (!behind_dot) {
      if (end < source_.size() && source_[end] == '.' && digits_at(end + 1) > 0) {
        is_float = true;
        end += 1 + digits_at(end + 1);
      }
      if (end < source_.size() && (source_[end] | 0x20) == 'e') {
        const size_t sign =
            end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-');
        if (const size_t digits = digits_at(end + 1 + sign); digits > 0) {
          is_float = true;
          end += 1 + sign + digits;
        }
      }
    }
    return is_float ? add_float(end) : lex_integer();
  }

  void add_float(size_t end) {
    std::string text = source_.substr(at_, end - at_);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    double value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec == std::errc::result_out_of_range) {
      const size_t e = text.find_first_of("eE");
      value = e != std::string::npos && text[e + 1] == '-' ? 0.0 : HUGE_VAL;
    }
    add(TokenType::kFloat).real = value;
    advance(end - at_);
  }

  void lex_integer() {
    int base = 10;
    size_t begin = at_;
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      const char letter = static_cast<char>(source_[at_ + 1] | 0x20);
      base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
      const size_t skipped = at_ + 2 < source_.size() && source_[at_ + 2] == '_' ? 3 : 2;
      if (base != 10 && digits_at(at_ + skipped, base) > 0) {
        begin = at_ + skipped;
      } else {
        base = 1;  // a decimal number that begins with 0 consists of zeros only
      }
    }
    const size_t end = begin + digits_at(begin, base);
    Int value = 0;
    for (size_t i = begin; i < end; ++i) {
      if (source_[i] == '_') continue;
      if (__builtin_mul_overflow(value, Int{base}, &value) ||
          __builtin_add_overflow(value, Int{digit_value(source_[i])}, &value)) {
        fail("the integer has more than 127 bits, which is the limit");
      }
    }
    add(TokenType::kInteger).integer = value;
    advance(end - at_);
  }

  void lex_name() {
    size_t end = at_;
    while (end < source_.size()) {
      size_t next = end;
      if (!is_word(next_character(source_, next))) break;
      end = next;
    }
    size_t second = at_;
    if (!is_letter(next_character(source_, second)) && source_[at_] != '_') {
      fail("a name begins with a letter or an underscore");
    }
    add(TokenType::kName, source_.substr(at_, end - at_));
    advance(end - at_);
  }

  void lex_string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("the string has no closing quote");
    add(TokenType::kText, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    advance(end + 1 - at_);
  }

  // Returns the text with its escape sequences replaced, as in a Python string literal.
  std::string unescaped(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 >= text.size()) {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      static constexpr std::string_view kLetters = "abfnrtv\\'\"";
      static constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
        out += kMeanings[known];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        i += append_code(out, text.substr(i + 1), c == 'x' ? 2 : c == 'u' ? 4 : 8, 16);
      } else if (c >= '0' && c <= '7') {
        size_t digits = 1;
        while (digits < 3 && i + digits < text.size() && digit_value(text[i + digits]) < 8)
          ++digits;
        i += append_code(out, text.substr(i), digits, 8) - 1;
      } else if (c == 'N') {
        fail("the escape \\N{NAME} is not supported; write the character itself");
      } else if (c != '\n') {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  // Appends the character whose code point is the number in the first `count` digits of `digits`.
  // Returns `count`.
  size_t append_code(std::string& out, std::string_view digits, size_t count, int base) const {
    char32_t code = 0;
    if (digits.size() < count) fail("an escape in the string is cut short");
    for (const char c : digits.substr(0, count)) {
      if (digit_value(c) >= base) fail("an escape in the string has a wrong digit");
      code = code * static_cast<char32_t>(base) + static_cast<char32_t>(digit_value(c));
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      fail("an escape in the string is not a Unicode character");
    }
    append_character(out, code);
    return count;
  }

  void lex_operator(std::string& open) {
    const auto* const found = std::find_if(kOperators.begin(), kOperators.end(),
                                           [&](std::string_view op) { return looking_at(op); });
    if (found == kOperators.end()) {
      size_t next = at_;
      next_character(source_, next);
      fail(cat("unexpected character \"", source_.substr(at_, next - at_), "\""));
    }
    const char c = found->front();
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail(cat("unexpected \"", c, "\""));
      open.pop_back();
    }
    add(TokenType::kOperator, std::string(*found));
    advance(found->size());
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace am::chat
