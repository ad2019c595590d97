// Style of terminal output: colours by role, line-drawing characters by locale, and width.
//
//   const term::Style style = term::Style::of(STDERR_FILENO, term::ColorMode::kAuto);
//   std::cerr << style.paint(term::Role::kError, "error") << ": no such file\n";
//
// The drawing functions of this folder return text and print nothing. With a plain style, the text
// contains no colour sequences.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace am::term {

enum class ColorMode { kAuto, kAlways, kNever };

// Parses "auto", "always" or "never"; returns nullopt for other names.
std::optional<ColorMode> parse_color_mode(std::string_view name);

enum class Role { kPlain, kError, kWarning, kNote, kHelp, kDim, kBold, kAccent };

struct Style {
  bool color = false;
  bool unicode = false;  // draw with line-drawing and block characters; otherwise with ASCII
  int width = 100;       // number of columns; drawings stay within it where possible
  int height = 28;       // number of lines, for drawings that may have any height
  // Whether `width` is the width of a terminal window or $COLUMNS. If true, tables shorten names to
  // fit into the width. If false, tables keep full names and may be wider.
  bool window = false;

  // Returns the style of output to a file descriptor, from the option `mode` and the environment.
  // With ColorMode::kAuto, output to a terminal has colour if NO_COLOR is empty or not set and TERM
  // is not "dumb".
  static Style of(int fd, ColorMode mode);
  // Returns a style without colour, in ASCII, for files and tests.
  static Style plain() { return {}; }

  // Returns the text in the colour of the role; without colour, `text` itself.
  std::string paint(Role role, std::string_view text) const;
  // Returns the text on the background colour with number `shade` in the 256-colour palette;
  // without colour, `text` itself.
  std::string paint_shade(int shade, std::string_view text) const;
};

// Return the background colour of a value for Style::paint_shade(). `share` is the value's position
// between the smallest value (0: dark blue) and the largest value (1: yellow). `value` is relative
// to the largest magnitude, from -1 (blue) over 0 (grey) to 1 (orange).
int shade_of(double share);
int diverging_shade(double value);

// Style::of() calls these functions to choose colour and Unicode. The arguments are values of
// environment variables; null means that the variable is not set.
bool wants_color(ColorMode mode, bool is_terminal, const char* no_color, const char* term);
bool is_utf8_locale(const char* lc_all, const char* lc_ctype, const char* lang);

// Whether a line on `fd` can be overwritten: `fd` is a terminal, and TERM is set and not "dumb".
bool can_redraw(int fd);

// Returns the number of terminal columns of a text. Colour sequences do not count.
int visible_width(std::string_view text);
// Whether the width of output to `fd` is known: `fd` is a terminal, or $COLUMNS is positive.
bool has_window(int fd);
// Returns $COLUMNS if it is positive, otherwise the current number of columns of the terminal on
// `fd`, or `otherwise` if `fd` is not a terminal. The result is at least 40.
int terminal_width(int fd, int otherwise);
// Returns the number of lines of the terminal on `fd`; `otherwise` if `fd` is not a terminal.
int terminal_height(int fd, int otherwise);
// Returns the number of bytes of the colour sequence of paint() or paint_shade() at the start of
// `text`; 0 if `text` does not start with a colour sequence.
size_t paint_length(std::string_view text);
// Returns the text without colour sequences.
std::string without_colours(std::string_view text);

// Pad a text with blanks to `width` columns, on its right or left side. Longer text is returned
// unchanged.
std::string pad_right(std::string_view text, int width);
std::string pad_left(std::string_view text, int width);

// Returns `text` repeated `times` times.
std::string repeat(std::string_view text, int times);

}  // namespace am::term
