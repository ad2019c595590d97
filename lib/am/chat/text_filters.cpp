#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "am/base/text.h"
#include "am/chat/builtin.h"
#include "am/chat/characters.h"
#include "am/chat/interpreter.h"

namespace am::chat {
namespace {

// Returns `text` as a value. The value is marked as safe (Value::safe) if `self` is.
Value like_self(const Call& call, std::string text) {
  return call.heap.text(std::move(text), call.self_text().safe);
}

Value upper_case(Call& call) { return like_self(call, upper(call.self_text().string)); }
Value lower_case(Call& call) { return like_self(call, lower(call.self_text().string)); }
Value capitalized(Call& call) { return like_self(call, capitalize(call.self_text().string)); }

// Implements the filter title: converts the first character of the text, and each first character
// after white space or one of -({[<, to upper case, and all other characters to lower case.
Value title_case(Call& call) {
  const std::string_view text = call.self_text().string;
  const auto is_border = [](char32_t c) {
    return c == U'-' || c == U'(' || c == U'{' || c == U'[' || c == U'<' || is_space(c);
  };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const bool border = is_border(next_character(text, at));
    for (size_t next = at; next < text.size() && is_border(next_character(text, next)) == border;) {
      at = next;
    }
    const std::string_view run = text.substr(begin, at - begin);
    const size_t first = byte_offset(run, 1);
    out += upper(run.substr(0, first));
    out += lower(run.substr(first));
  }
  return call.heap.text(std::move(out));
}

Value trim(Call& call) {
  const Value text = call.self_text();
  if (!call.has(0) || call[0].is(Kind::kNone)) {
    return Value::text(strip_right(strip_left(text.string)), text.safe);
  }
  const std::string_view set = call.text(0, "");
  call.heap.scan(text.string.size() * set.size());
  return Value::text(strip_right(strip_left(text.string, &set), &set), text.safe);
}

Value replace_filter(Call& call) {
  const Int count = call.has(2) && !call[2].is(Kind::kNone) ? call.integer(2, -1) : -1;
  return replaced(call.heap, call.self_text().string, str(call[0], call.heap).string,
                  str(call[1], call.heap).string, count);
}

Value escape_filter(Call& call) {
  const Value text = call.self_text();
  call.heap.charge(static_cast<int64_t>(5 * text.string.size()));
  return text.safe ? text : call.heap.text(escaped_html(text.string), true);
}

Value indent(Call& call) {
  if (!call.self.is(Kind::kText)) {
    throw Failure(cat("indent() needs a str, not ", type_name(call.self)));
  }
  std::string indention;
  if (call.has(0) && call[0].is(Kind::kText)) {
    indention = call[0].string;
  } else {
    const Int width = call.count(0, 4);
    if (width > call.heap.bytes_left()) call.heap.charge(INT64_MAX);
    indention.assign(static_cast<size_t>(std::max(width, Int{0})), ' ');
  }
  const bool first = call.flag(1, false);
  const bool blank = call.flag(2, false);
  const std::string text = cat(call.self_text().string, "\n");
  std::string out = first ? indention : "";
  bool is_first = true;
  for (const std::string_view line : lines_of(text, false)) {
    if (!is_first) out += '\n';
    if (!is_first && (blank || !line.empty())) out += indention;
    is_first = false;
    out += line;
    if (static_cast<int64_t>(out.size()) > call.heap.bytes_left()) call.heap.charge(INT64_MAX);
  }
  return like_self(call, std::move(out));
}

Value center(Call& call) {
  const Arguments width{{Value::integer(call.integer(0, 80))}, {}};
  const Value text = call.self_text();
  return call_builtin(*find_method(text, "center"), call.in, text, width);
}

Value truncate(Call& call) {
  const Int most = call.count(0, 255);
  const std::string_view end = call.text(2, "...");
  const Int leeway = call.has(3) && !call[3].is(Kind::kNone) ? call.count(3, 5) : 5;
  const auto kept = most - static_cast<Int>(length(end));
  if (kept < 0) throw Failure("truncate() needs a length that is at least the length of `end`");
  if (leeway < 0) throw Failure("truncate() needs a leeway that is not negative");
  if (length(call.self, call.heap) <= most + leeway) return call.self;
  if (!call.self.is(Kind::kText))
    throw Failure(cat("truncate() needs a str, not ", type_name(call.self)));
  const std::string_view text = call.self.string;
  std::string_view cut = text.substr(0, byte_offset(text, static_cast<size_t>(kept)));
  if (!call.flag(1, false)) cut = cut.substr(0, cut.rfind(' '));
  return call.heap.text(cat(cut, end));
}

Value count_words(Call& call) {
  const std::string_view text = call.self_text().string;
  Int words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const bool is = is_word(next_character(text, at));
    words += is && !inside ? 1 : 0;
    inside = is;
  }
  return Value::integer(words);
}

std::string url_quoted(std::string_view text, bool in_query) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-' || c == '~' ||
                          (c == '/' && !in_query);
    if (is_plain) {
      out += c;
    } else if (c == ' ' && in_query) {
      out += '+';
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += "0123456789ABCDEF"[byte >> 4];
      out += "0123456789ABCDEF"[byte & 15];
    }
  }
  return out;
}

Value url_encode(Call& call) {
  if (call.self.is(Kind::kText) || !is_iterable(call.self)) {
    return call.heap.text(url_quoted(call.self_text().string, false));
  }
  std::string out;
  const auto add = [&](const Value& key, const Value& value) {
    out += cat(out.empty() ? "" : "&", url_quoted(str(key, call.heap).string, true), "=",
               url_quoted(str(value, call.heap).string, true));
  };
  if (call.self.is(Kind::kDict)) {
    for (const auto& [key, value] : call.self.dict->items) add(key, value);
  } else {
    for (const Value& pair : elements(call.self, call.heap)) {
      const std::vector<Value> parts = elements(pair, call.heap);
      if (parts.size() != 2) throw Failure("urlencode() takes pairs");
      add(parts[0], parts[1]);
    }
  }
  return call.heap.text(std::move(out));
}

// ---- numbers ----

Value absolute(Call& call) {
  if (call.self.is(Kind::kFloat)) return Value::floating(std::abs(call.self.real));
  const Int value = integer_of(call.self);
  return value < 0 ? negative(Value::integer(value)) : Value::integer(value);
}

// Sets `out` to the float without its fraction. Returns false if the float is not finite. Throws
// Failure if its absolute value is 2^126 or more.
bool truncated(double value, Int& out) {
  if (!std::isfinite(value)) return false;
  checked(std::abs(value) >= 0x1p126, 0);
  out = static_cast<Int>(value);
  return true;
}

Value to_int(Call& call) {
  const Value otherwise = call.has(0) ? call[0] : Value::integer(0);
  if (call.self.is(Kind::kUndefined)) throw Failure(std::string(call.self.string));
  if (call.self.is_integral()) return Value::integer(call.self.as_integer());
  Int value = 0;
  double real = 0;
  if (call.self.is(Kind::kText)) {
    if (parse_int(call.self.string, call.integer(1, 10), value)) return Value::integer(value);
    if (!parse_float(call.self.string, real)) return otherwise;
  } else if (call.self.is(Kind::kFloat)) {
    real = call.self.real;
    if (std::isinf(real)) throw Failure("cannot convert float infinity to integer");
  } else {
    return otherwise;
  }
  return truncated(real, value) ? Value::integer(value) : otherwise;
}

Value to_float(Call& call) {
  if (call.self.is(Kind::kUndefined)) throw Failure(std::string(call.self.string));
  double value = 0;
  if (call.self.is_number()) return Value::floating(call.self.as_real());
  if (call.self.is(Kind::kText) && parse_float(call.self.string, value))
    return Value::floating(value);
  return call.has(0) ? call[0] : Value::floating(0);
}

// Returns Python's round(value, precision): the nearest number with `precision` decimal places,
// with ties to even.
double rounded(double value, Int precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < -308) return std::copysign(0.0, value);
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  std::string digits(static_cast<size_t>(precision) + 330, '\0');
  const int size =
      std::snprintf(digits.data(), digits.size(), "%.*f", static_cast<int>(precision), value);
  double out = 0;
  std::from_chars(digits.data(), digits.data() + size, out);
  return out;
}

Value round_number(Call& call) {
  const Int precision = call.integer(0, 0);
  const std::string_view method = call.text(1, "common");
  if (!call.self.is_number())
    throw Failure(cat("round() needs a number, not ", type_name(call.self)));
  if (method == "common") {
    if (call.self.is(Kind::kFloat)) return Value::floating(rounded(call.self.real, precision));
    if (precision >= 0) return Value::integer(call.self.as_integer());
    return Value::integer(static_cast<Int>(rounded(call.self.as_real(), precision)));
  }
  if (method != "ceil" && method != "floor") throw Failure("method must be common, ceil or floor");
  if (precision > 22 || precision < -22) throw Failure("round() has a precision beyond 22 digits");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = call.self.as_real() * unit;
  if (!std::isfinite(scaled)) throw Failure("cannot round a number that is not finite");
  const double whole =
      (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0;  // -0.0 becomes 0.0
  return Value::floating(whole / unit);
}

Value format_filter(Call& call) {
  if (!call.given.named.empty() && !call.given.positional.empty()) {
    throw Failure("format() cannot take positional and named arguments at once");
  }
  std::vector<std::pair<Value, Value>> named;
  for (const auto& [name, value] : call.given.named) named.emplace_back(Value::text(name), value);
  return percent_format(
      call.in, call.self_text(),
      named.empty() ? call.heap.list(call.given.positional, Kind::kTuple) : call.heap.dict(named));
}

constexpr Builtin kTextFilters[] = {
    {"abs", "", 0, absolute},
    {"capitalize", "", 0, capitalized},
    {"center", "width", 0, center},
    {"e", "", 0, escape_filter},
    {"escape", "", 0, escape_filter},
    {"float", "default", 0, to_float},
    {"forceescape", "", 0,
     [](Call& c) {
       c.heap.charge(static_cast<int64_t>(5 * c.self_text().string.size()));
       return c.heap.text(escaped_html(c.self_text().string), true);
     }},
    {"format", "*", 0, format_filter},
    {"indent", "width first blank", 0, indent},
    {"int", "default base", 0, to_int},
    {"lower", "", 0, lower_case},
    {"replace", "old new count", 2, replace_filter},
    {"round", "precision method", 0, round_number},
    {"safe", "", 0, [](Call& c) { return Value::text(c.self_text().string, true); }},
    {"string", "", 0, [](Call& c) { return c.self_text(); }},
    {"title", "", 0, title_case},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, json_dumps},
    {"trim", "chars", 0, trim},
    {"truncate", "length killwords end leeway", 0, truncate},
    {"upper", "", 0, upper_case},
    {"urlencode", "", 0, url_encode},
    {"wordcount", "", 0, count_words},
};

// Appends the text to `out` without the single underscores between digits of the base. Returns
// false if an underscore is elsewhere.
bool without_underscores(std::string_view text, Int base, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || digit_value(text[i - 1]) >= base ||
               digit_value(text[i + 1]) >= base) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::span<const Builtin> text_filters() { return kTextFilters; }

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

bool parse_int(std::string_view text, Int base, Int& out) {
  text = strip_right(strip_left(text));
  const bool negative = starts_with(text, "-");
  if (negative || starts_with(text, "+")) text.remove_prefix(1);
  if (base != 0 && (base < 2 || base > 36)) return false;
  const char letter = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  const Int marked = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (marked != 0 && (base == 0 || base == marked)) {
    base = marked;
    text.remove_prefix(text.size() > 3 && text[2] == '_' ? 3 : 2);
  } else if (base == 0) {
    base = 10;
  }
  std::string digits;
  if (!without_underscores(text, base, digits) || digits.empty()) return false;
  out = 0;
  for (const char c : digits) {
    const int digit = digit_value(c);
    if (digit >= base) return false;
    const bool overflow =
        __builtin_mul_overflow(out, base, &out) || __builtin_add_overflow(out, Int{digit}, &out);
    checked(overflow, out);
  }
  if (negative) out = -out;
  return true;
}

bool parse_float(std::string_view text, double& out) {
  std::string digits;
  if (!without_underscores(strip_right(strip_left(text)), 10, digits)) return false;
  std::string_view rest = digits;
  const bool negative = starts_with(rest, "-");
  if (negative || starts_with(rest, "+")) rest.remove_prefix(1);
  if (starts_with(rest, "-") || starts_with(rest, "+") || starts_with(rest, "n(")) return false;
  const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), out);
  if (end != rest.data() + rest.size() || rest.empty() || status == std::errc::invalid_argument)
    return false;
  // from_chars() accepts "nan(...)", but Python does not.
  if (rest.find('(') != std::string_view::npos) return false;
  if (status == std::errc::result_out_of_range) {
    const size_t e = rest.find_first_of("eE");
    out = e != std::string_view::npos && rest[e + 1] == '-' ? 0.0 : HUGE_VAL;
  }
  if (negative) out = -out;
  return true;
}

}  // namespace am::chat
