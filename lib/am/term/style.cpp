#include "am/term/style.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "am/base/text.h"

namespace am::term {
namespace {

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::string_view kBackground = "\x1b[48;5;";

template <size_t kCount>
int at_share(const std::array<int, kCount>& shades, double share) {
  const auto last = static_cast<double>(kCount - 1);
  return shades.at(static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * last)));
}

constexpr std::array kPainted = {Role::kError, Role::kWarning, Role::kNote,  Role::kHelp,
                                 Role::kDim,   Role::kBold,    Role::kAccent};

const char* code(Role role) {
  switch (role) {
    case Role::kPlain:
      return "";
    case Role::kError:
      return "\x1b[1;31m";
    case Role::kWarning:
      return "\x1b[1;33m";
    case Role::kNote:
      return "\x1b[1;36m";
    case Role::kHelp:
      return "\x1b[32m";
    case Role::kDim:
      return "\x1b[2m";
    case Role::kBold:
      return "\x1b[1m";
    case Role::kAccent:
      return "\x1b[34m";
  }
  return "";
}

bool is_dumb(std::string_view term) { return term == "dumb"; }

}  // namespace

std::optional<ColorMode> parse_color_mode(std::string_view name) {
  if (name == "auto") return ColorMode::kAuto;
  if (name == "always") return ColorMode::kAlways;
  if (name == "never") return ColorMode::kNever;
  return std::nullopt;
}

bool wants_color(ColorMode mode, bool is_terminal, const char* no_color, const char* term) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  if (no_color != nullptr && *no_color != '\0') return false;
  if (term != nullptr && is_dumb(term)) return false;
  return is_terminal;
}

bool can_redraw(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && term != nullptr && !is_dumb(term);
}

bool is_utf8_locale(const char* lc_all, const char* lc_ctype, const char* lang) {
  for (const char* name : {lc_all, lc_ctype, lang}) {
    if (name == nullptr || *name == '\0') continue;  // the first variable with a value decides
    std::string upper(name);
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return upper.find("UTF-8") != std::string::npos || upper.find("UTF8") != std::string::npos;
  }
  return false;
}

bool has_window(int fd) {
  const char* columns = std::getenv("COLUMNS");
  return ::isatty(fd) == 1 || (columns != nullptr && std::atoi(columns) > 0);
}

int terminal_width(int fd, int otherwise) {
  constexpr int kNarrowest = 40;
  int width = otherwise;
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr && std::atoi(columns) > 0) {
    width = std::atoi(columns);
  } else {
    struct winsize size {};
    if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) width = size.ws_col;
  }
  return std::max(kNarrowest, width);
}

int terminal_height(int fd, int otherwise) {
  struct winsize size {};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : otherwise;
}

Style Style::of(int fd, ColorMode mode) {
  Style style;
  const bool is_terminal = ::isatty(fd) == 1;
  style.color = wants_color(mode, is_terminal, std::getenv("NO_COLOR"), std::getenv("TERM"));
  style.unicode =
      is_utf8_locale(std::getenv("LC_ALL"), std::getenv("LC_CTYPE"), std::getenv("LANG"));
  style.width = terminal_width(fd, style.width);
  style.window = has_window(fd);
  style.height = terminal_height(fd, style.height);
  return style;
}

std::string Style::paint(Role role, std::string_view text) const {
  if (!color || role == Role::kPlain || text.empty()) return std::string(text);
  return cat(code(role), text, kReset);
}

std::string Style::paint_shade(int shade, std::string_view text) const {
  if (!color || text.empty()) return std::string(text);
  return cat(kBackground, shade, "m", text, kReset);
}

int shade_of(double share) {
  constexpr std::array kShades = {17, 18, 54, 60, 24, 30, 36, 42, 77, 113, 149, 185, 220, 226};
  return at_share(kShades, share);
}

int diverging_shade(double value) {
  constexpr std::array kShades = {21, 27, 33, 75, 117, 153, 254, 223, 216, 209, 208, 202, 166};
  return at_share(kShades, (value + 1.0) / 2.0);
}

size_t paint_length(std::string_view text) {
  if (text.empty() || text.front() != '\x1b') return 0;
  if (starts_with(text, kReset)) return kReset.size();
  if (starts_with(text, kBackground)) {
    const size_t end = text.find_first_not_of("0123456789", kBackground.size());
    return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
  }
  for (const Role role : kPainted) {
    if (const std::string_view sequence = code(role); starts_with(text, sequence)) {
      return sequence.size();
    }
  }
  return 0;
}

std::string without_colours(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t escape = text.find("\x1b[");
    out += text.substr(0, escape);
    const size_t end = escape == std::string_view::npos ? escape : text.find('m', escape);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return out;
}

int visible_width(std::string_view text) { return display_width(without_colours(text)); }

std::string repeat(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string pad_right(std::string_view text, int width) {
  return cat(text, repeat(" ", width - visible_width(text)));
}

std::string pad_left(std::string_view text, int width) {
  return cat(repeat(" ", width - visible_width(text)), text);
}

}  // namespace am::term
