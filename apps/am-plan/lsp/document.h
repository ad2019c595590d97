// The text of a plan file that is open in an editor, with positions as the Language Server Protocol
// counts them: lines from 0, and in a line UTF-16 code units from 0.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace am_plan::lsp {

// Result of a text search that finds nothing.
inline constexpr size_t kNone = std::string_view::npos;

struct Position {
  int line = 0;
  int character = 0;

  bool operator==(const Position&) const = default;
};

// The part of a line between two positions.
struct Range {
  Position begin;
  Position end;

  bool contains(Position position) const;
  bool operator==(const Range&) const = default;
};

// The replacement of a range by a text.
struct TextEdit {
  Range range;
  std::string text;

  bool operator==(const TextEdit&) const = default;
};

// A part of a line, as offsets in bytes from the beginning of the line; `end` is exclusive.
struct Bytes {
  size_t begin = 0;
  size_t end = 0;
};

// Returns the number of bytes of the first `characters` code points of a UTF-8 text, or the text's
// size if the text has fewer code points.
size_t bytes_of_characters(std::string_view text, int characters);
// Returns the number of bytes of the leading code points of a UTF-8 text that together have at most
// `units` UTF-16 code units.
size_t bytes_of_utf16(std::string_view text, int units);
// Returns the number of UTF-16 code units of a UTF-8 text.
int utf16_length(std::string_view text);

// Returns the path that a file:// URI names. Returns any other URI, such as an unsaved document's,
// unchanged.
std::string path_of_uri(std::string_view uri);

class Document {
 public:
  Document(std::string uri, std::string text);

  const std::string& uri() const { return uri_; }
  const std::string& file() const { return file_; }
  const std::string& text() const { return text_; }
  // Returns the number of lines, which is at least 1: a text that ends with a newline has an empty
  // last line.
  int line_count() const { return static_cast<int>(begins_.size()); }
  // Returns a line without its newline; an empty text if the document has no such line.
  std::string_view line(int number) const;

  // Returns the nearest position that exists in the text.
  Position nearest(Position position) const;
  // Returns the byte offset of the position in its line. The position must exist in the text.
  size_t byte_at(Position position) const;
  Range range(int line, Bytes bytes) const;
  Position end() const;

  // Returns the text after an edit whose positions exist in the text.
  std::string edited(const TextEdit& edit) const;

 private:
  size_t offset_of(Position position) const;

  std::string uri_;
  std::string file_;
  std::string text_;
  std::vector<size_t> begins_;  // byte offset in text_ of each line
};

}  // namespace am_plan::lsp
