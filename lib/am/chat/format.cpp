#include <algorithm>
#include <cmath>
#include <optional>

#include "am/base/text.h"
#include "am/chat/builtin.h"
#include "am/chat/characters.h"
#include "am/chat/format_spec.h"
#include "am/chat/interpreter.h"

namespace am::chat {
namespace {

// ---- template % values ----

class PercentFormat {
 public:
  PercentFormat(Interpreter& in, std::string_view text, const Value& values)
      : in_(in), rest_(text), values_(values), is_tuple_(values.is(Kind::kTuple)) {
    is_mapping_ = values.is(Kind::kDict) || values.is(Kind::kList) || values.is(Kind::kRange) ||
                  values.is(Kind::kUndefined);
  }

  Value run(bool safe) {
    while (true) {
      const size_t percent = rest_.find('%');
      out_ += rest_.substr(0, percent);
      if (percent == std::string_view::npos) break;
      rest_.remove_prefix(percent + 1);
      convert(safe);
    }
    const bool is_done =
        is_tuple_ ? taken_ == values_.list->items.size() : taken_ > 0 || is_mapping_;
    if (!is_done) throw Failure("not all arguments converted during string formatting");
    return in_.heap().text(std::move(out_), safe);
  }

 private:
  const Value& next_value() {
    if (is_tuple_) {
      if (taken_ < values_.list->items.size()) return values_.list->items[taken_++];
    } else if (taken_++ == 0) {
      return values_;
    }
    throw Failure("not enough arguments for format string");
  }

  Value keyed_value() {
    int depth = 1;
    size_t end = 1;
    for (; end < rest_.size(); ++end) {
      depth += rest_[end] == '(' ? 1 : rest_[end] == ')' ? -1 : 0;
      if (depth == 0) break;
    }
    if (end >= rest_.size()) throw Failure("incomplete format key");
    if (!is_mapping_) throw Failure("format requires a mapping");
    if (values_.is(Kind::kUndefined)) throw Failure(std::string(values_.string));
    const Value* const found = values_.is(Kind::kDict)
                                   ? find(*values_.dict, rest_.substr(1, end - 1), in_.heap())
                                   : nullptr;
    if (found == nullptr)
      throw Failure(cat("no value for the format key '", rest_.substr(1, end - 1), "'"));
    rest_.remove_prefix(end + 1);
    return *found;
  }

  Int number(std::optional<Int> otherwise) {
    if (!rest_.empty() && rest_[0] == '*') {
      rest_.remove_prefix(1);
      constexpr Int kMost = Int{1} << 62;
      return std::clamp(integer_of(next_value()), -kMost, kMost);
    }
    return take_number(rest_).value_or(otherwise.value_or(0));
  }

  void convert(bool safe) {
    FormatSpec spec;
    std::optional<Value> value;
    if (starts_with(rest_, "(")) value = keyed_value();
    bool left = false;
    for (; !rest_.empty() && std::string_view("-+ #0").find(rest_[0]) != std::string_view::npos;
         rest_.remove_prefix(1)) {
      const char flag = rest_[0];
      left = left || flag == '-';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
      spec.alternate = spec.alternate || flag == '#';
      spec.zero = spec.zero || flag == '0';
    }
    spec.width = number(std::nullopt);
    if (spec.width < 0) {
      left = true;
      spec.width = -spec.width;
    }
    if (starts_with(rest_, ".")) {
      rest_.remove_prefix(1);
      spec.precision = std::max(number(0), Int{0});
    }
    if (!rest_.empty() && std::string_view("hlL").find(rest_[0]) != std::string_view::npos) {
      rest_.remove_prefix(1);
    }
    if (rest_.empty()) throw Failure("incomplete format");
    spec.type = rest_[0];
    rest_.remove_prefix(1);
    if (spec.type == '%') {
      out_ += '%';
      return;
    }
    spec.align = left ? '<' : '>';
    write(value ? *value : next_value(), spec, left, safe);
    if (static_cast<int64_t>(out_.size()) > in_.heap().bytes_left()) in_.heap().charge(INT64_MAX);
  }

  void write(const Value& value, FormatSpec& spec, bool left, bool safe) {
    Heap& heap = in_.heap();
    const bool is_text = std::string_view("sra").find(spec.type) != std::string_view::npos ||
                         (spec.type == 'c' && value.is(Kind::kText));
    if (is_text) {
      std::string text = spec.type == 's' || spec.type == 'c' ? std::string(str(value, heap).string)
                                                              : repr(value, heap);
      if (spec.type == 'c' && length(text) != 1) throw Failure("%c requires int or char");
      if (safe && !(value.is(Kind::kText) && value.safe)) text = escaped_html(text);
      out_ +=
          padded(heap, std::string(first_characters(text, spec.precision)), spec, spec.align, 0);
      return;
    }
    const char low = static_cast<char>(spec.type | 0x20);
    if (std::string_view("diuxXoc").find(spec.type) != std::string_view::npos) {
      const bool takes_float = low == 'd' || low == 'i' || low == 'u';
      if (!value.is_integral() && !(takes_float && value.is(Kind::kFloat))) {
        throw Failure(cat("%", spec.type, " format: a number is required, not ", type_name(value)));
      }
      if (value.is(Kind::kFloat) && !(std::abs(value.real) < 0x1p126)) {
        throw Failure("cannot convert the float to an integer");
      }
      if (takes_float) spec.type = 'd';
      set_zeros(spec, left);
      out_ += format_integer(
          heap, value.is(Kind::kFloat) ? static_cast<Int>(value.real) : value.as_integer(), spec);
    } else if (std::string_view("efg").find(low) != std::string_view::npos) {
      if (!value.is_number()) throw Failure(cat("must be real number, not ", type_name(value)));
      set_zeros(spec, left);
      out_ += format_float(heap, value.as_real(), spec);
    } else {
      throw Failure(cat("unsupported format character '", spec.type, "'"));
    }
  }

  static void set_zeros(FormatSpec& spec, bool left) {
    if (!spec.zero || left || spec.type == 'c') return;
    spec.fill = "0";
    spec.align = '=';
  }

  Interpreter& in_;
  std::string_view rest_;
  const Value& values_;
  bool is_tuple_, is_mapping_ = false;
  size_t taken_ = 0;
  std::string out_;
};

// ---- text.format(...) ----

FormatSpec parse_spec(std::string_view text) {
  FormatSpec spec;
  const auto take = [&](std::string_view set) {
    if (text.empty() || set.find(text[0]) == std::string_view::npos) return '\0';
    const char taken = text[0];
    text.remove_prefix(1);
    return taken;
  };
  size_t second = 0;
  if (!text.empty()) next_character(text, second);
  if (second < text.size() && second > 0 &&
      std::string_view("<>=^").find(text[second]) != std::string_view::npos) {
    spec.fill = text.substr(0, second);
    text.remove_prefix(second);
  }
  spec.align = take("<>=^");
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != '\0';
  spec.zero = take("0") != '\0';
  spec.width = take_number(text).value_or(0);
  spec.grouping = take(",_");
  if (take(".") != '\0') {
    spec.precision = take_number(text);
    if (!spec.precision) throw Failure("Format specifier missing precision");
  }
  spec.type = take("bcdeEfFgGnosxX%");
  if (!text.empty()) throw Failure("Invalid format specifier");
  if (spec.zero && spec.grouping != '\0') {
    throw Failure("a format specifier with 0 and a thousands separator is not supported");
  }
  if (spec.zero && spec.fill == " ") spec.fill = "0";
  return spec;
}

std::string format_value(Heap& heap, const Value& value, std::string_view text) {
  if (text.empty()) return std::string(str(value, heap).string);
  FormatSpec spec = parse_spec(text);
  if (value.is(Kind::kText)) {
    if ((spec.type != '\0' && spec.type != 's') || spec.align == '=' || spec.alternate ||
        spec.sign != '-' || spec.grouping != '\0') {
      throw Failure("the format specifier is not valid for a string");
    }
    return padded(heap, std::string(first_characters(value.string, spec.precision)), spec,
                  spec.align == '\0' ? '<' : spec.align, 0);
  }
  if (!value.is_number() || spec.type == 's') {
    throw Failure(cat("unsupported format string passed to ", type_name(value), ".__format__"));
  }
  if (spec.zero && spec.align == '\0') spec.align = '=';
  if (value.is(Kind::kFloat)) {
    if (spec.type != '\0' &&
        std::string_view("eEfFgGn%").find(spec.type) == std::string_view::npos) {
      throw Failure(cat("Unknown format code '", spec.type, "' for object of type 'float'"));
    }
    return format_float(heap, value.real, spec);
  }
  if (spec.precision && std::string_view("eEfFgG%").find(spec.type) == std::string_view::npos) {
    throw Failure("Precision not allowed in integer format specifier");
  }
  return format_integer(heap, value.as_integer(), spec);
}

class BraceFormat {
 public:
  BraceFormat(Interpreter& in, const Arguments& arguments) : in_(in), arguments_(arguments) {}

  // Returns `text` with its fields {...} replaced by the formatted arguments. `depth` is 0 for the
  // format string itself, and 1 for a field's format specifier, which may contain fields too.
  std::string run(std::string_view text, int depth) {
    if (depth > 1) throw Failure("Max string recursion exceeded");
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c != '{' && c != '}') {
        out += c;
      } else if (i + 1 < text.size() && text[i + 1] == c) {
        out += c;
        ++i;
      } else if (c == '}') {
        throw Failure("Single '}' encountered in format string");
      } else {
        const size_t end = field_end(text, i + 1);
        out += field(text.substr(i + 1, end - i - 1), depth);
        i = end;
      }
      if (static_cast<int64_t>(out.size()) > in_.heap().bytes_left()) in_.heap().charge(INT64_MAX);
    }
    return out;
  }

 private:
  static size_t field_end(std::string_view text, size_t at) {
    for (int depth = 1; at < text.size(); ++at) {
      depth += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
      if (depth == 0) return at;
    }
    throw Failure("expected '}' before end of string");
  }

  std::string field(std::string_view text, int depth) {
    in_.heap().step();
    size_t end = 0;
    for (bool inside = false; end < text.size(); ++end) {
      inside = inside ? text[end] != ']' : text[end] == '[';
      if (!inside && (text[end] == ':' || text[end] == '!')) break;
    }
    Value value = named_value(text.substr(0, end));
    text.remove_prefix(end);
    if (starts_with(text, "!")) {
      const char conversion = text.size() > 1 ? text[1] : '\0';
      if ((conversion != 'r' && conversion != 's') || (text.size() > 2 && text[2] != ':')) {
        throw Failure("a format string supports only the conversions !r and !s");
      }
      value = conversion == 's' ? str(value, in_.heap()) : in_.heap().text(repr(value, in_.heap()));
      text.remove_prefix(2);
    }
    const std::string spec = starts_with(text, ":") ? run(text.substr(1), depth + 1) : "";
    return format_value(in_.heap(), value, spec);
  }

  Value named_value(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      const bool is_item = name[0] == '[';
      name.remove_prefix(1);
      const size_t stop =
          std::min(is_item ? name.find(']') : name.find_first_of(".["), name.size());
      std::string_view key = name.substr(0, stop);
      if (key.empty() || (is_item && stop == name.size()))
        throw Failure("wrong field in format string");
      name.remove_prefix(stop + (is_item ? 1 : 0));
      if (!name.empty() && name[0] != '.' && name[0] != '[')
        throw Failure("wrong field in format string");
      std::string_view digits = key;
      const auto index = take_number(digits);
      value = !is_item                  ? in_.attribute(value, key)
              : index && digits.empty() ? in_.item(value, Value::integer(*index))
                                        : in_.item(value, Value::text(key));
    }
    return value;
  }

  Value argument(std::string_view name) {
    std::string_view digits = name;
    std::optional<Int> index = take_number(digits);
    if (!digits.empty()) {
      for (const auto& [known, value] : arguments_.named) {
        if (known == name) return value;
      }
      throw Failure(cat("no argument '", name, "' for the format string"));
    }
    if (index ? next_ > 0 : is_numbered_) {
      throw Failure("cannot switch between automatic and manual field numbering");
    }
    is_numbered_ = index.has_value();
    if (!index) index = next_++;
    if (*index >= static_cast<Int>(arguments_.positional.size())) {
      throw Failure("Replacement index out of range for positional args tuple");
    }
    return arguments_.positional[static_cast<size_t>(*index)];
  }

  Interpreter& in_;
  const Arguments& arguments_;
  Int next_ = 0;
  bool is_numbered_ = false;
};

}  // namespace

Value percent_format(Interpreter& in, const Value& self, const Value& values) {
  in.heap().scan(self.string.size());
  return PercentFormat(in, self.string, values).run(self.safe);
}

Value brace_format(Interpreter& in, std::string_view text, const Arguments& arguments) {
  in.heap().scan(text.size());
  return in.heap().text(BraceFormat(in, arguments).run(text, 0));
}

}  // namespace am::chat
