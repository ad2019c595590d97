#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "am/base/text.h"
#include "am/chat/characters.h"
#include "am/chat/value.h"

namespace am::chat {
namespace {

// Writes Python's repr() of values. Checks the heap's limit of bytes after each value, because
// nested lists that share their elements may have a huge text.
class ReprWriter {
 public:
  explicit ReprWriter(Heap& heap) : heap_(heap) {}

  std::string write(const Value& value) {
    append(value);
    return std::move(out_);
  }

 private:
  void append(const Value& value) {
    heap_.step();
    switch (value.kind) {
      case Kind::kUndefined:
        out_ += "Undefined";
        break;
      case Kind::kNone:
        out_ += "None";
        break;
      case Kind::kBool:
        out_ += value.boolean ? "True" : "False";
        break;
      case Kind::kInt:
        out_ += int_text(value.number);
        break;
      case Kind::kFloat:
        out_ += float_text(value.real);
        break;
      case Kind::kText:
        out_ += value.safe ? "Markup(" : "";
        append_quoted(value.string);
        out_ += value.safe ? ")" : "";
        break;
      case Kind::kList:
        append_items(*value.list, "[", "]");
        break;
      case Kind::kTuple:
        append_items(*value.list, "(", value.list->items.size() == 1 ? ",)" : ")");
        break;
      case Kind::kView:
        out_ += value.list->name;
        append_items(*value.list, "([", "])");
        break;
      case Kind::kRange:
        append_range(*value.list);
        break;
      case Kind::kIterator:
        out_ += cat("<", value.list->name, " object>");
        break;
      case Kind::kDict:
        append_dict(*value.dict);
        break;
      case Kind::kObject:
        out_ += value.object->repr(heap_);
        break;
    }
    if (static_cast<int64_t>(out_.size()) > heap_.bytes_left()) heap_.charge(heap_.limits().bytes);
  }

  void append_items(const List& list, std::string_view begin, std::string_view end) {
    out_ += begin;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += ", ";
      append(list.items[i]);
    }
    out_ += end;
  }

  void append_range(const List& list) {
    out_ += cat("range(", int_text(list.start), ", ", int_text(list.stop));
    out_ += list.step == 1 ? ")" : cat(", ", int_text(list.step), ")");
  }

  void append_dict(const Dict& dict) {
    out_ += "{";
    for (size_t i = 0; i < dict.items.size(); ++i) {
      if (i > 0) out_ += ", ";
      append(dict.items[i].first);
      out_ += ": ";
      append(dict.items[i].second);
    }
    out_ += "}";
  }

  void append_quoted(std::string_view text) {
    const bool has_single = text.find('\'') != std::string_view::npos;
    const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
    out_ += quote;
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_character(text, at);
      if (c == U'\\' || c == static_cast<char32_t>(quote)) {
        out_ += '\\';
        out_ += static_cast<char>(c);
      } else if (c == U'\n') {
        out_ += "\\n";
      } else if (c == U'\r') {
        out_ += "\\r";
      } else if (c == U'\t') {
        out_ += "\\t";
      } else if (is_printable(c)) {
        out_ += text.substr(begin, at - begin);
      } else {
        append_escaped(c);
      }
    }
    out_ += quote;
  }

  void append_escaped(char32_t c) {
    const std::string digits = int_text(static_cast<Int>(c), 16);
    const size_t width = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
    out_ += c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
    out_.append(width - digits.size(), '0');
    out_ += digits;
  }

  Heap& heap_;
  std::string out_;
};

}  // namespace

std::string repr(const Value& value, Heap& heap) { return ReprWriter(heap).write(value); }

std::string int_text(Int value, int base) {
  std::string out;
  const bool negative = value < 0;
  do {
    const int digit = static_cast<int>(value % base);
    out += "0123456789abcdef"[digit < 0 ? -digit : digit];
    value /= base;
  } while (value != 0);
  if (negative) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer;
  const auto [end, status] = std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                           std::abs(value), std::chars_format::scientific);
  static_cast<void>(status);
  const std::string_view shortest(buffer.data(), static_cast<size_t>(end - buffer.data()));
  const size_t e = shortest.find('e');
  std::string digits(1, shortest[0]);
  if (e > 2) digits += shortest.substr(2, e - 2);
  int exponent = 0;
  std::from_chars(shortest.data() + e + (shortest[e + 1] == '+' ? 2 : 1), end, exponent);
  std::string out = std::signbit(value) ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    const int size = std::abs(exponent);
    out += cat(exponent < 0 ? "e-" : "e+", size < 10 ? "0" : "", size);
  } else if (exponent < 0) {
    out += "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else if (count <= exponent + 1) {
    out += digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  } else {
    out += digits.insert(static_cast<size_t>(exponent) + 1, ".");
  }
  return out;
}

}  // namespace am::chat
