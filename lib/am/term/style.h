// How text looks on this output: colours by role, line drawing by locale, width.
//
//   const term::Style style = term::Style::of(STDERR_FILENO, term::ColorMode::kAuto);
//   std::cerr << style.paint(term::Role::kError, "error") << ": no such file\n";
//
// Everything in this folder takes a Style and returns text; nothing here prints. A plain style puts
// no control character into what it returns.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace am::term {

enum class ColorMode { kAuto, kAlways, kNever };

// "auto", "always", "never"
std::optional<ColorMode> parse_color_mode(std::string_view name);

enum class Role { kPlain, kError, kWarning, kNote, kHelp, kDim, kBold, kAccent };

struct Style {
  bool color = false;
  bool unicode = false;  // line drawing and blocks; else ASCII
  int width = 100;       // columns; pictures keep inside where they can

  // For a file descriptor, from the option and the environment. auto: colour on a terminal, unless
  // NO_COLOR is set and not empty or TERM is "dumb".
  static Style of(int fd, ColorMode mode);
  // No colour, ASCII: for files and tests.
  static Style plain() { return {}; }

  std::string paint(Role role, std::string_view text) const;
};

// The decisions behind Style::of; null stands for a variable that is not set.
bool wants_color(ColorMode mode, bool is_terminal, const char* no_color, const char* term);
bool is_utf8_locale(const char* lc_all, const char* lc_ctype, const char* lang);

// Whether a line behind `fd` can be drawn over: it is a terminal, and no dumb one.
bool can_redraw(int fd);

// Terminal columns of text that paint() may have decorated.
int visible_width(std::string_view text);
// Columns of the terminal behind `fd`, as it is now: $COLUMNS where that is set; at least 40.
// `otherwise`: where there is none.
int terminal_width(int fd, int otherwise);
// Length of the sequence at the front of `text` that paint() writes; 0 where none stands there.
size_t paint_length(std::string_view text);
// Without what paint() writes around it.
std::string without_colours(std::string_view text);

// Padded with blanks to `width` columns; longer text stays as it is.
std::string pad_right(std::string_view text, int width);
std::string pad_left(std::string_view text, int width);

// `text` n times.
std::string repeat(std::string_view text, int times);

}  // namespace am::term
