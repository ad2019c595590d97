#include "am/planner/exchange/yaml_reader.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/planner/exchange/place.h"
#include "am/planner/exchange/quoted.h"

namespace am::planner {
namespace {

using config::Value;

constexpr int kDeepest = 64;

struct Stop {};  // the first error has been reported

class Reader {
 public:
  Reader(std::string_view text, const std::string& file, Diagnostics& found)
      : text_(text), places_(text, file), found_(found) {}

  Value document() {
    Value root = table(0);
    if (!next_content()) return root;
    if (column() == 0 && line_is("---")) {
      at_ += 3;
      end_of_line();
      if (!next_content()) return root;
    }
    if (peek() == '-' && is_item()) fail("the document is a list, not a mapping");
    if (auto value = block(0)) root = std::move(*value);
    if (!root.is_table()) fail("the document is one value, not a mapping", 0);
    if (next_content()) fail(line_is("---") ? "a second document" : "a line that belongs nowhere");
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& message) { fail(message, at_); }
  [[noreturn]] void fail(const std::string& message, size_t at) {
    found_.error("exchange.syntax", places_.span(at), message,
                 "YAML of mappings, lists, and scalars on one line is read");
    throw Stop{};
  }

  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool done() const { return at_ >= text_.size(); }
  bool blank_at(size_t i) const {
    return i >= text_.size() || text_[i] == ' ' || text_[i] == '\t' || text_[i] == '\n' ||
           text_[i] == '\r';
  }
  int column() const { return static_cast<int>(at_ - places_.line_begin(at_)); }
  bool line_is(std::string_view word) const {
    return text_.substr(at_, word.size()) == word && blank_at(at_ + word.size());
  }
  bool is_item() const { return peek() == '-' && blank_at(at_ + 1); }

  Value table(size_t at) const {
    Value value;
    value.span = places_.span(at);
    return value;
  }

  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t' || (peek() == '\r' && peek(1) == '\n')) ++at_;
  }

  // Behind a value: nothing but a comment.
  void end_of_line() {
    const bool apart = at_ == 0 || blank_at(at_) || blank_at(at_ - 1);
    skip_blanks();
    if (done() || peek() == '\n') return;
    if (peek() != '#' || !apart) fail("more text behind a value");
    at_ = std::min(text_.find('\n', at_), text_.size());
  }

  // To the first character of the next line that has one (or of this line); false at the end.
  bool next_content() {
    for (;;) {
      const size_t begin = at_;
      while (peek() == ' ') ++at_;
      if (peek() == '\t') {
        skip_blanks();
        if (!done() && peek() != '\n' && peek() != '#') fail("a tab in the indentation", begin);
      }
      if (peek() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      if (peek() == '\r' && peek(1) == '\n') ++at_;
      if (done() || (column() == 0 && line_is("..."))) return false;
      if (peek() != '\n') return true;
      ++at_;
    }
  }

  // What stands at the first character of a line, or behind "- " or "key:" on one.
  std::optional<Value> block(int depth) {
    if (depth > kDeepest) fail(cat("more than ", kDeepest, " levels"));
    if (is_item()) return sequence(depth);
    if (begins_mapping()) return mapping(depth);
    auto value = scalar(depth);
    end_of_line();
    return value;
  }

  // Whether "key:" stands here.
  bool begins_mapping() {
    if (peek() == '?' && blank_at(at_ + 1)) fail("a complex key (?) is not read");
    if (peek() == '[' || peek() == '{') return false;
    const size_t saved = at_;
    bool found = false;
    if (peek() == '"' || peek() == '\'') {
      std::string ignored;
      if (read_quoted(text_, at_, ignored) == nullptr) {
        skip_blanks();
        found = peek() == ':' && blank_at(at_ + 1);
      }
    } else {
      found = find_colon() != std::string_view::npos;
    }
    at_ = saved;
    return found;
  }

  // The colon that ends a plain key on this line.
  size_t find_colon() const {
    for (size_t i = at_; i < text_.size() && text_[i] != '\n'; ++i) {
      if (text_[i] == ':' && blank_at(i + 1)) return i;
      if (text_[i] == '#' && i > at_ && blank_at(i - 1)) break;
    }
    return std::string_view::npos;
  }

  std::string key() {
    std::string name;
    if (peek() == '"' || peek() == '\'') {
      quoted(name);
      skip_blanks();
    } else {
      refuse_indicator();
      const size_t colon = find_colon();
      if (colon == std::string_view::npos) fail("a line that is no \"key: value\"");
      name = trim(text_.substr(at_, colon - at_));
      at_ = colon;
    }
    if (peek() != ':') fail("a key without \":\"");
    if (name == "<<") fail("a merge key (<<) is not read");
    return name;
  }

  void add(Value& to, std::string name, size_t at, std::optional<Value> value) {
    if (to.find(name) != nullptr) fail(cat("the key \"", name, "\" is written twice"), at);
    if (value.has_value()) {
      to.members.push_back({std::move(name), places_.span(at), std::move(*value)});
    }
  }

  Value mapping(int depth) {
    const int indent = column();
    Value out = table(at_);
    do {
      const size_t at = at_;
      std::string name = key();
      ++at_;  // the colon
      add(out, std::move(name), at, behind_colon(indent, depth));
    } while (continues(indent, "a key"));
    return out;
  }

  std::optional<Value> behind_colon(int indent, int depth) {
    skip_blanks();
    if (!done() && peek() != '\n' && peek() != '#') {
      auto value = scalar(depth);
      end_of_line();
      return value;
    }
    end_of_line();
    if (!next_content()) return std::nullopt;
    // A list may stand under its key without indentation.
    if (column() > indent || (column() == indent && is_item())) return block(depth + 1);
    return std::nullopt;
  }

  Value sequence(int depth) {
    const int indent = column();
    Value out = table(at_);
    out.kind = Value::Kind::kArray;
    do {
      if (!is_item()) break;  // the next key of the mapping that this list is a value of
      const size_t at = at_;
      ++at_;
      skip_blanks();
      std::optional<Value> item;
      if (done() || peek() == '\n' || peek() == '#') {
        end_of_line();
        if (next_content() && column() > indent) item = block(depth + 1);
      } else {
        item = block(depth + 1);
      }
      out.items.push_back(item ? std::move(*item) : null_item(at));
    } while (continues(indent, "an item"));
    return out;
  }

  Value null_item(size_t at) const {
    Value value = table(at);
    value.kind = Value::Kind::kText;
    value.text = "null";
    return value;
  }

  bool continues(int indent, const char* what) {
    if (!next_content()) return false;
    if (column() > indent) fail(cat(what, " that is indented too far, or text on a second line"));
    if (column() == 0 && line_is("---")) return false;
    return column() == indent;
  }

  void refuse_indicator() {
    switch (peek()) {
      case '&':
      case '*':
        fail("anchors and aliases (& and *) are not read");
      case '!':
        fail("tags (!) are not read");
      case '|':
      case '>':
        fail("text blocks (| and >) are not read");
      case '%':
      case '@':
      case '`':
        fail(cat("a value cannot begin with ", peek()));
      default:
        return;
    }
  }

  void quoted(std::string& out) {
    const size_t begin = at_;
    if (const char* wrong = read_quoted(text_, at_, out)) fail(wrong, begin);
  }

  Value text_at(size_t at, std::string text) const {
    Value value = table(at);
    value.kind = Value::Kind::kText;
    value.text = std::move(text);
    return value;
  }

  std::optional<Value> scalar(int depth) {
    const size_t begin = at_;
    if (peek() == '[' || peek() == '{') return flow(depth);
    if (peek() == '"' || peek() == '\'') {
      std::string text;
      quoted(text);
      return text_at(begin, std::move(text));
    }
    refuse_indicator();
    size_t end = at_;
    while (end < text_.size() && text_[end] != '\n' &&
           !(text_[end] == '#' && blank_at(end - 1) && end > begin)) {
      if (text_[end] == ':' && blank_at(end + 1)) fail("a second \":\" on a line", end);
      ++end;
    }
    at_ = end;
    return plain(begin, end);
  }

  std::optional<Value> plain(size_t begin, size_t end) const {
    return plain_value(trim(text_.substr(begin, end - begin)), places_.span(begin));
  }

  // ---- brackets and braces ----------------------------------------------------------------------

  void skip_flow_blanks() {
    for (;;) {
      while (!done() && blank_at(at_)) ++at_;
      if (peek() != '#' || !blank_at(at_ - 1)) return;
      at_ = std::min(text_.find('\n', at_), text_.size());
    }
  }

  std::optional<Value> flow(int depth) {
    if (depth > kDeepest) fail(cat("more than ", kDeepest, " levels"));
    const size_t begin = at_;
    const bool is_list = text_[at_++] == '[';
    const char close = is_list ? ']' : '}';
    Value out = table(begin);
    out.is_inline = true;
    if (is_list) out.kind = Value::Kind::kArray;
    for (;;) {
      skip_flow_blanks();
      if (done()) fail(cat("\"", text_[begin], "\" is never closed"), begin);
      if (peek() == close) break;
      is_list ? flow_item(out, depth) : flow_member(out, depth);
      skip_flow_blanks();
      if (peek() == ',') {
        ++at_;
      } else if (peek() != close && !done()) {
        fail(cat("expected \",\" or \"", close, "\""));
      }
    }
    ++at_;
    return out;
  }

  std::optional<Value> flow_value(int depth) {
    if (peek() == '[' || peek() == '{') return flow(depth + 1);
    const size_t begin = at_;
    if (peek() == '"' || peek() == '\'') {
      std::string text;
      quoted(text);
      return text_at(begin, std::move(text));
    }
    refuse_indicator();
    while (!done() && std::string_view(",[]{}\n").find(peek()) == std::string_view::npos &&
           !(peek() == ':' && (blank_at(at_ + 1) || peek(1) == ',')) &&
           !(peek() == '#' && blank_at(at_ - 1))) {
      ++at_;
    }
    if (at_ == begin) fail("a value is missing");
    return plain(begin, at_);
  }

  void flow_item(Value& out, int depth) {
    const size_t begin = at_;
    auto item = flow_value(depth);
    out.items.push_back(item ? std::move(*item) : null_item(begin));
  }

  void flow_member(Value& out, int depth) {
    const size_t begin = at_;
    if (peek() == '[' || peek() == '{') fail("a key that is no text");
    std::string name;
    if (peek() == '"' || peek() == '\'') {
      quoted(name);
    } else {
      while (!done() && std::string_view(",[]{}:\n").find(peek()) == std::string_view::npos) ++at_;
      name = trim(text_.substr(begin, at_ - begin));
    }
    skip_flow_blanks();
    if (peek() != ':') fail("a key without \":\"");
    ++at_;
    skip_flow_blanks();
    std::optional<Value> value;
    if (peek() != ',' && peek() != '}') value = flow_value(depth);
    add(out, std::move(name), begin, std::move(value));
  }

  std::string_view text_;
  Places places_;
  Diagnostics& found_;
  size_t at_ = 0;
};

}  // namespace

std::optional<Value> read_yaml(std::string_view text, const std::string& file, Diagnostics& found) {
  try {
    return Reader(text, file, found).document();
  } catch (const Stop&) {
    return std::nullopt;
  }
}

}  // namespace am::planner
