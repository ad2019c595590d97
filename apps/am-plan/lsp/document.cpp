#include "document.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "am/base/text.h"

namespace am_plan::lsp {
namespace {

// Code points above U+FFFF have four bytes in UTF-8 and two units in UTF-16.
int units_of(size_t bytes) { return bytes == 4 ? 2 : 1; }

// Returns the number of bytes of the first character. A byte that is not UTF-8 counts as a
// character.
size_t first_character(std::string_view text) { return std::max<size_t>(1, am::utf8_length(text)); }

// Returns the byte that an escape such as "%20" at the beginning of the text encodes; nothing if
// the text does not begin with an escape.
std::optional<char> escaped_byte(std::string_view text) {
  if (text.size() < 3 || text[0] != '%') return std::nullopt;
  unsigned char byte = 0;
  const char* end = text.data() + 3;
  const auto read = std::from_chars(text.data() + 1, end, byte, 16);
  return read.ptr == end ? std::optional(static_cast<char>(byte)) : std::nullopt;
}

std::string without_escapes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto byte = escaped_byte(text);
    out += byte.value_or(text[0]);
    text.remove_prefix(byte ? 3 : 1);
  }
  return out;
}

}  // namespace

bool Range::contains(Position position) const {
  return position.line == begin.line && position.character >= begin.character &&
         position.character <= end.character;
}

size_t bytes_of_characters(std::string_view text, int characters) {
  size_t at = 0;
  for (; characters > 0 && at < text.size(); --characters) at += first_character(text.substr(at));
  return at;
}

size_t bytes_of_utf16(std::string_view text, int units) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t bytes = first_character(text.substr(at));
    units -= units_of(bytes);
    if (units < 0) break;
    at += bytes;
  }
  return at;
}

int utf16_length(std::string_view text) {
  int units = 0;
  while (!text.empty()) {
    const size_t bytes = first_character(text);
    units += units_of(bytes);
    text.remove_prefix(bytes);
  }
  return units;
}

std::string path_of_uri(std::string_view uri) {
  constexpr std::string_view kScheme = "file://";
  if (!am::starts_with(uri, kScheme)) return std::string(uri);
  const size_t path = uri.find('/', kScheme.size());  // the host, usually empty, is left out
  return path == std::string_view::npos ? std::string(uri) : without_escapes(uri.substr(path));
}

Document::Document(std::string uri, std::string text)
    : uri_(std::move(uri)), file_(path_of_uri(uri_)), text_(std::move(text)), begins_{0} {
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') begins_.push_back(i + 1);
  }
}

std::string_view Document::line(int number) const {
  if (number < 0 || number >= line_count()) return {};
  const size_t begin = begins_[static_cast<size_t>(number)];
  const std::string_view rest = std::string_view(text_).substr(begin);
  const std::string_view line = rest.substr(0, rest.find('\n'));
  return am::ends_with(line, "\r") ? line.substr(0, line.size() - 1) : line;
}

Position Document::nearest(Position position) const {
  if (position.line < 0) return {};
  if (position.line >= line_count()) return end();
  return {position.line, std::clamp(position.character, 0, utf16_length(line(position.line)))};
}

size_t Document::byte_at(Position position) const {
  return bytes_of_utf16(line(position.line), position.character);
}

Range Document::range(int number, Bytes bytes) const {
  const std::string_view text = line(number);
  return {{number, utf16_length(text.substr(0, bytes.begin))},
          {number, utf16_length(text.substr(0, bytes.end))}};
}

Position Document::end() const {
  const int last = line_count() - 1;
  return {last, utf16_length(line(last))};
}

size_t Document::offset_of(Position position) const {
  return begins_[static_cast<size_t>(position.line)] + byte_at(position);
}

std::string Document::edited(const TextEdit& edit) const {
  const size_t begin = offset_of(edit.range.begin);
  const size_t end = offset_of(edit.range.end);
  return am::cat(std::string_view(text_).substr(0, begin), edit.text,
                 std::string_view(text_).substr(end));
}

}  // namespace am_plan::lsp
