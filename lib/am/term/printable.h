// Makes untrusted text safe for a terminal, so that the text cannot move the cursor, change colours
// or reorder a line.
//
//   std::cerr << term::printable(name) << "\n";
//
// The control characters are those of ASCII, DEL, C1 (U+0080 to U+009F, among them the
// one-character form of ESC [), and those that reorder bidirectional text (U+061C, U+200E, U+200F,
// U+202A to U+202E, U+2066 to U+2069). A byte that is not UTF-8 counts as one control character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace am::term {

// Whether this UTF-8 sequence is a control character.
bool is_control(std::string_view sequence);

// Returns the text as one line: each control character becomes '?', each tab a space. The number of
// characters is unchanged, so a character's position in the text stays valid.
std::string printable(std::string_view text);

// Replaces control characters in a text of several lines by '?'. Keeps newlines, tabs and, if
// `paint` is true, the colour sequences of Style (paint_length()).
std::string printable_lines(std::string_view text, bool paint = true);

// shortened() returns a line of up to `most` bytes unchanged. In a longer line, it keeps at most
// `most` bytes and replaces the middle by the number of omitted bytes, as "...[120 bytes]...".
inline constexpr size_t kLongestEcho = 1000;
std::string shortened(std::string_view text, size_t most = kLongestEcho);

// Returns printable(shortened(text)), for messages and names on a terminal.
std::string echo(std::string_view text);
// Applies echo() to each line of a message. Indents all lines but the first by `indent` blanks, and
// removes empty lines at the end.
std::string echo_lines(std::string_view text, int indent = 2);

// Returns JSON text with control characters written as \u escapes. The result has the same meaning
// as `json`, and is safe on a terminal.
std::string printable_json(std::string_view json);

}  // namespace am::term
