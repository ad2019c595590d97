// read_toml, the only user of the TOML library.
//
// What toml++ 3.3 asserts about its input it assumes where assertions are off, and some input does
// not keep it: behaviour is undefined then. So its assertions stay on, and throw.
namespace am::config {
struct BrokenAssumption {};
}  // namespace am::config
#ifdef NDEBUG
#undef NDEBUG
#define AM_NDEBUG
#endif
#define TOML_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : throw ::am::config::BrokenAssumption())
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored \
    "-Wterminate"  // in functions that are noexcept, which no text reaches
#include <toml++/toml.h>
#pragma GCC diagnostic pop
#ifdef AM_NDEBUG
#define NDEBUG
#undef AM_NDEBUG
#endif

#include <algorithm>
#include <tuple>

#include "am/base/text.h"
#include "am/config/value.h"

namespace am::config {
namespace {

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : file_(file), lines_(split(text, '\n')) {
    for (std::string& line : lines_) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
    }
  }

  const std::vector<std::string>& lines() const { return lines_; }

  Span span(const toml::source_region& region) const {
    Span span;
    span.file = file_;
    span.line = static_cast<int>(region.begin.line);
    span.column = static_cast<int>(region.begin.column);
    const auto line = static_cast<size_t>(region.begin.line);
    // Of a line that only machines write, with thousands of values, no copy for each of them.
    constexpr size_t kLongest = 2000;
    if (line >= 1 && line <= lines_.size() && lines_[line - 1].size() <= kLongest) {
      span.source = lines_[line - 1];
    }
    // A value of several lines is underlined to the end of its first one.
    const int rest = display_width(span.source) - span.column + 1;
    const int length = region.end.line == region.begin.line
                           ? static_cast<int>(region.end.column) - span.column
                           : rest;
    span.length = std::max(1, std::min(length, rest));
    return span;
  }

  Value read(const toml::node& node) const {
    Value value;
    value.span = span(node.source());
    if (const auto* table = node.as_table()) {
      read_table(*table, value);
    } else if (const auto* array = node.as_array()) {
      value.kind = Value::Kind::kArray;
      for (const toml::node& item : *array) value.items.push_back(read(item));
    } else if (const auto* text = node.as_string()) {
      value.kind = Value::Kind::kText;
      value.text = text->get();
    } else if (const auto* integer = node.as_integer()) {
      value.kind = Value::Kind::kInteger;
      value.integer = integer->get();
    } else if (const auto* number = node.as_floating_point()) {
      value.kind = Value::Kind::kNumber;
      value.number = number->get();
    } else if (const auto* boolean = node.as_boolean()) {
      value.kind = Value::Kind::kBoolean;
      value.boolean = boolean->get();
    } else {
      value.kind = Value::Kind::kDate;
    }
    return value;
  }

 private:
  // toml++ keeps keys sorted by name; people wrote them in an order, which errors and TP tables
  // keep.
  void read_table(const toml::table& table, Value& value) const {
    value.kind = Value::Kind::kTable;
    value.is_inline = table.is_inline();
    for (const auto& [key, node] : table) {
      value.members.push_back({std::string(key.str()), span(key.source()), read(node)});
    }
    std::stable_sort(value.members.begin(), value.members.end(), [](const auto& a, const auto& b) {
      return std::tie(a.key_span.line, a.key_span.column) <
             std::tie(b.key_span.line, b.key_span.column);
    });
    for (Member& member : value.members) {
      if (member.value.is_table() && !member.value.is_inline) member.value.span = member.key_span;
    }
  }

  const std::string& file_;
  std::vector<std::string> lines_;
};

constexpr int kDeepest = 64;

// Dotted keys nest tables without limit, and code that walks tables is recursive. (Braces and
// brackets are limited by the TOML library.)
bool keys_are_shallow(const std::vector<std::string>& lines, const std::string& file,
                      Diagnostics& found) {
  for (size_t i = 0; i < lines.size(); ++i) {
    int dots = 0;
    char quote = 0;
    for (const char c : lines[i]) {
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '#') {
        break;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '.') {
        ++dots;
      } else if (std::string_view("=,{}[]").find(c) != std::string_view::npos) {
        dots = 0;
      }
      if (dots <= kDeepest) continue;
      found.error("plan.syntax", Span{file, static_cast<int>(i) + 1, 1, 1, {}},
                  cat("a key of more than ", kDeepest, " parts"));
      return false;
    }
  }
  return true;
}

// Past the end of the string that begins at `at`, or of the line or text where it does not end.
size_t skip_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string triple(3, quote);
  const bool multi = text.substr(at, 3) == triple;
  for (size_t i = at + (multi ? 3 : 1); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (multi ? text.substr(i, 3) == triple : text[i] == quote || text[i] == '\n') {
      return i + (multi ? 3 : 1);
    }
  }
  return text.size();
}

// Whether a string may begin after this character; blanks do not count. Elsewhere a quote is one
// more character of a value that is none.
bool string_may_follow(char c) {
  return std::string_view("\n=[{,.").find(c) != std::string_view::npos;
}

// Outside of strings and comments TOML is ASCII. toml++ 3.3 asks of every other character there
// whether it is a blank, and runs into an unreachable branch for many: so they are refused before
// it sees them. A byte order mark may come first.
bool is_ascii_outside_strings(std::string_view text, const std::string& file, Diagnostics& found) {
  size_t i = starts_with(text, "\xEF\xBB\xBF") ? 3 : 0;
  char before = '\n';
  while (i < text.size()) {
    const char c = text[i];
    if ((c == '"' || c == '\'') && string_may_follow(before)) {
      before = c;
      i = skip_string(text, i);
      continue;
    }
    if (c != ' ' && c != '\t' && c != '\r') before = c;
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (static_cast<unsigned char>(c) < 0x80) {
      ++i;
    } else {
      break;
    }
  }
  if (i >= text.size()) return true;
  const size_t newline = i == 0 ? std::string_view::npos : text.rfind('\n', i - 1);
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  Span span;
  span.file = file;
  span.line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + begin, '\n'));
  span.column = 1 + display_width(text.substr(begin, i - begin));
  span.source = std::string(text.substr(begin, text.find('\n', begin) - begin));
  found.error("plan.syntax", span, "a character that TOML allows only in text and comments",
              "keys are ASCII letters, digits, - and _; anything else stands in quotes");
  return false;
}

// The library writes "Error while parsing WHERE: WHAT".
std::string message_of(const toml::parse_error& error) {
  constexpr std::string_view kPrefix = "Error while parsing ";
  const std::string_view text = error.description();
  const size_t colon = text.find(": ");
  if (!starts_with(text, kPrefix) || colon == std::string_view::npos) return std::string(text);
  const std::string_view where = text.substr(kPrefix.size(), colon - kPrefix.size());
  return cat(text.substr(colon + 2), " (in ", where, ")");
}

std::string help_for(std::string_view description) {
  if (description.find("redefine") != std::string_view::npos) {
    return "each key and section is written once; keep one of the two";
  }
  if (description.find("determine value type") != std::string_view::npos) {
    return "text is written in quotes";
  }
  return {};
}

// Whether the parser runs into an assertion of its own; an error that it can report is none.
bool breaks_parser(std::string_view text) {
  try {
    static_cast<void>(toml::parse(text));
  } catch (const toml::parse_error&) {
    return false;
  } catch (const BrokenAssumption&) {
    return true;
  }
  return false;
}

// The first line with which the text breaks the parser, counted from 1. The parser reads from the
// front, so every longer beginning breaks it too.
int breaking_line(std::string_view text) {
  std::vector<size_t> ends;  // of each line
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\n') ends.push_back(at + 1);
  }
  const auto first = std::partition_point(
      ends.begin(), ends.end(), [&](size_t end) { return !breaks_parser(text.substr(0, end)); });
  return static_cast<int>(first - ends.begin()) + 1;
}

}  // namespace

std::optional<Value> read_toml(std::string_view text, const std::string& file, Diagnostics& found) {
  const Reader reader(text, file);
  if (!keys_are_shallow(reader.lines(), file, found)) return std::nullopt;
  if (!is_ascii_outside_strings(text, file, found)) return std::nullopt;
  try {
    return reader.read(toml::parse(text));
  } catch (const toml::parse_error& error) {
    found.error("plan.syntax", reader.span(error.source()), message_of(error),
                help_for(error.description()));
  } catch (const BrokenAssumption&) {
    const int line = breaking_line(text);
    found.error("plan.syntax",
                Span{file, line, 1, 1, reader.lines()[static_cast<size_t>(line) - 1]},
                "this line is no section and no key",
                "keys are ASCII letters, digits, - and _; anything else stands in quotes");
  }
  return std::nullopt;
}

}  // namespace am::config
