#include "am/term/style.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace am::term;

TEST_CASE("colour follows the option, then NO_COLOR, then TERM, then the terminal") {
  const auto mode = ColorMode::kAuto;
  CHECK(wants_color(mode, true, nullptr, "xterm"));
  CHECK(wants_color(mode, true, "", "xterm"));  // empty counts as unset
  CHECK_FALSE(wants_color(mode, true, "1", "xterm"));
  CHECK_FALSE(wants_color(mode, true, nullptr, "dumb"));
  CHECK_FALSE(wants_color(mode, false, nullptr, "xterm"));
  CHECK(wants_color(ColorMode::kAlways, false, "1", "dumb"));
  CHECK_FALSE(wants_color(ColorMode::kNever, true, nullptr, "xterm"));
  CHECK(parse_color_mode("always") == ColorMode::kAlways);
  CHECK_FALSE(parse_color_mode("sometimes"));
}

TEST_CASE("the first locale variable that is set decides about line drawing") {
  CHECK(is_utf8_locale(nullptr, nullptr, "en_US.UTF-8"));
  CHECK(is_utf8_locale("", "C.utf8", "C"));
  CHECK_FALSE(is_utf8_locale("C", nullptr, "en_US.UTF-8"));
  CHECK_FALSE(is_utf8_locale(nullptr, nullptr, nullptr));
}

TEST_CASE("a file gets no colour unless it is asked for") {
  const int fd = ::open("/dev/null", O_WRONLY);
  CHECK_FALSE(Style::of(fd, ColorMode::kAuto).color);
  CHECK(Style::of(fd, ColorMode::kAlways).color);
  CHECK(Style::of(fd, ColorMode::kAuto).width >= 40);
  ::close(fd);
}

TEST_CASE("paint adds escapes only with colour, and never around nothing") {
  Style style;
  CHECK(style.paint(Role::kError, "error") == "error");
  style.color = true;
  CHECK(style.paint(Role::kError, "error") == "\x1b[1;31merror\x1b[0m");
  CHECK(style.paint(Role::kPlain, "text") == "text");
  CHECK(style.paint(Role::kError, "").empty());
  for (const Role role : {Role::kError, Role::kWarning, Role::kNote, Role::kHelp, Role::kDim,
                          Role::kBold, Role::kAccent}) {
    CHECK(visible_width(style.paint(role, "größe")) == 5);
  }
}

TEST_CASE("shades are backgrounds, from the smallest to the largest value") {
  Style style;
  CHECK(style.paint_shade(17, " ") == " ");
  style.color = true;
  const std::string cell = style.paint_shade(shade_of(0.0), "ab");
  CHECK(cell == "\x1b[48;5;17mab\x1b[0m");
  CHECK(visible_width(cell) == 2);
  CHECK(paint_length(cell) == 10);
  CHECK(paint_length("\x1b[48;5;17") == 0);
  CHECK(paint_length("\x1b[48;5;4;7mab") == 0);
  CHECK(shade_of(1.0) == shade_of(7.0));
  CHECK(diverging_shade(0.0) == 254);
  CHECK(diverging_shade(-1.0) != diverging_shade(1.0));
}

TEST_CASE("padding counts what is seen") {
  CHECK(pad_right("é", 3) == "é  ");
  CHECK(pad_left("ab", 3) == " ab");
  CHECK(pad_left("abcd", 3) == "abcd");
  CHECK(pad_right("\x1b[1mab\x1b[0m", 3) == "\x1b[1mab\x1b[0m ");
  CHECK(visible_width("\x1b[1") == 0);
  CHECK(repeat("ab", 2) == "abab");
  CHECK(repeat("ab", -1).empty());
}
