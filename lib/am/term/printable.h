// Text that others wrote, for a terminal: nothing in it may move the cursor, change colours or
// reorder a line.
//
//   std::cerr << term::printable(name) << "\n";
//
// Control characters are those of ASCII, DEL, C1 (U+0080 to U+009F, among them the one-character
// form of ESC [), and those that reorder bidirectional text (U+061C, U+200E, U+200F, U+202A to
// U+202E, U+2066 to U+2069). Bytes that are not UTF-8 count as one each.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace am::term {

// Whether this one UTF-8 sequence is a control character.
bool is_control(std::string_view sequence);

// One line: control characters become '?', tabs one space. The number of characters stays, so that
// a column in the text is a column on the screen.
std::string printable(std::string_view text);

// Several lines, in which newlines, tabs and, with `paint`, the sequences of Style::paint() stay.
std::string printable_lines(std::string_view text, bool paint = true);

// At most `most` characters of a line: of a longer one both ends, and how many are left out.
inline constexpr size_t kLongestEcho = 1000;
std::string shortened(std::string_view text, size_t most = kLongestEcho);

// What becomes of a message or a name on its way to a terminal: printable(shortened(text)).
std::string echo(std::string_view text);
// A message of several lines: each becomes echo(line), and all but the first are indented.
std::string echo_lines(std::string_view text, int indent = 2);

// JSON text in which such characters are written as \uXXXX: the same JSON, safe on a terminal.
std::string printable_json(std::string_view json);

}  // namespace am::term
