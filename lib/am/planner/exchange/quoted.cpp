#include "am/planner/exchange/quoted.h"

#include <charconv>
#include <cstdint>
#include <optional>

namespace am::planner {
namespace {

void append_utf8(uint32_t code, std::string& out) {
  const auto add = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | (code >> 6));
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3F));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

std::optional<uint32_t> read_hex(std::string_view text, size_t at, size_t digits) {
  uint32_t value = 0;
  if (at + digits > text.size()) return std::nullopt;
  const auto [end, status] =
      std::from_chars(text.data() + at, text.data() + at + digits, value, 16);
  if (status != std::errc() || end != text.data() + at + digits) return std::nullopt;
  return value;
}

// A code point of \u: one unit, or a pair of surrogates. Moves `at` behind it.
std::optional<uint32_t> read_unicode(std::string_view text, size_t& at, size_t digits) {
  const auto first = read_hex(text, at, digits);
  if (!first.has_value()) return std::nullopt;
  at += digits;
  if (*first < 0xD800 || *first > 0xDFFF) {
    return *first <= 0x10FFFF ? first : std::nullopt;
  }
  if (*first > 0xDBFF || text.substr(at, 2) != "\\u") return std::nullopt;
  const auto second = read_hex(text, at + 2, 4);
  if (!second.has_value() || *second < 0xDC00 || *second > 0xDFFF) return std::nullopt;
  at += 6;
  return 0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00);
}

const char* read_escape(std::string_view text, size_t& at, std::string& out) {
  constexpr std::string_view kNames = "0abtnvfre\"/\\ ";
  constexpr std::string_view kValues("\0\a\b\t\n\v\f\r\x1B\"/\\ ", 13);
  if (at >= text.size()) return "a quote that is never closed";
  const char name = text[at++];
  if (const size_t i = kNames.find(name); i != std::string_view::npos) {
    out += kValues[i];
    return nullptr;
  }
  const size_t digits = name == 'x' ? 2 : name == 'u' ? 4 : name == 'U' ? 8 : 0;
  const auto code = digits == 0 ? std::nullopt : read_unicode(text, at, digits);
  if (!code.has_value()) return "an unknown escape in a quoted text";
  append_utf8(*code, out);
  return nullptr;
}

}  // namespace

const char* read_quoted(std::string_view text, size_t& at, std::string& out) {
  const char mark = text[at++];
  while (at < text.size() && text[at] != '\n') {
    const char c = text[at++];
    if (c == mark) {
      if (mark == '"' || at >= text.size() || text[at] != '\'') return nullptr;
      out += text[at++];
    } else if (c == '\\' && mark == '"') {
      if (const char* wrong = read_escape(text, at, out)) return wrong;
    } else {
      out += c;
    }
  }
  return "a quote that is not closed on its line";
}

}  // namespace am::planner
