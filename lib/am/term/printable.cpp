#include "am/term/printable.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/term/style.h"

namespace am::term {
namespace {

// Returns the code point of a UTF-8 sequence for which utf8_length() is not 0.
char32_t decode(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead;
  char32_t code = lead & (0xFFU >> (sequence.size() + 1));
  for (const char c : sequence.substr(1))
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3FU);
  return code;
}

constexpr std::array<std::pair<char32_t, char32_t>, 6> kControls = {{{0x00, 0x1F},
                                                                     {0x7F, 0x9F},
                                                                     {0x61C, 0x61C},
                                                                     {0x200E, 0x200F},
                                                                     {0x202A, 0x202E},
                                                                     {0x2066, 0x2069}}};

// Returns the UTF-8 sequence at the start of `text`, or one byte if there is none.
std::string_view front(std::string_view text) {
  return text.substr(0, std::max<size_t>(1, utf8_length(text)));
}

bool is_unsafe(std::string_view sequence) {
  return utf8_length(sequence) == 0 || is_control(sequence);
}

bool is_plain(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

bool is_control(std::string_view sequence) {
  const char32_t code = decode(sequence);
  return std::any_of(kControls.begin(), kControls.end(), [code](const auto& range) {
    return range.first <= code && code <= range.second;
  });
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view sequence = front(text);
    if (sequence == "\t") {
      out += ' ';
    } else if (is_unsafe(sequence)) {
      out += '?';
    } else {
      out += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

std::string printable_lines(std::string_view text, bool paint) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto* const other = std::find_if_not(text.begin(), text.end(), is_plain);
    out.append(text.begin(), other);
    text.remove_prefix(static_cast<size_t>(other - text.begin()));
    if (text.empty()) break;
    const size_t painted = paint ? paint_length(text) : 0;
    const std::string_view sequence = text.substr(0, std::max(front(text).size(), painted));
    const bool keep = painted > 0 || sequence == "\n" || sequence == "\t";
    if (!keep && is_unsafe(sequence)) {
      out += '?';
    } else {
      out += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  const size_t head = most - most / 4;
  // Whether byte i continues a UTF-8 sequence. The text is cut only at the beginning of a sequence.
  const auto within = [&](size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U;
  };
  size_t begin = head;
  while (begin > 0 && within(begin)) --begin;
  size_t end = text.size() - most / 4;
  while (end < text.size() && within(end)) ++end;
  return cat(text.substr(0, begin), "...[", end - begin, " bytes]...", text.substr(end));
}

std::string echo(std::string_view text) { return printable(shortened(text)); }

std::string echo_lines(std::string_view text, int indent) {
  std::vector<std::string> lines = split(text, '\n');
  while (lines.size() > 1 && lines.back().empty()) lines.pop_back();
  for (std::string& line : lines) line = echo(line);
  return join(lines, "\n" + std::string(static_cast<size_t>(indent), ' '));
}

std::string printable_json(std::string_view json) {
  std::string out;
  while (!json.empty()) {
    const std::string_view sequence = front(json);
    // A newline can only be indentation of the JSON text, because strings contain newlines as
    // escapes.
    if (sequence == "\n" || !is_unsafe(sequence)) {
      out += sequence;
    } else {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x",
                    static_cast<unsigned>(decode(sequence)));
      out += escape.data();
    }
    json.remove_prefix(sequence.size());
  }
  return out;
}

}  // namespace am::term
