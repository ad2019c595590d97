// Tests curves drawn with braille dots, with letters, and as one line of blocks.
#include "am/term/line_plot.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "am/base/text.h"

namespace am::term {
namespace {

Curve curve(std::vector<double> y, std::string name = "loss") {
  std::vector<double> x(y.size());
  std::iota(x.begin(), x.end(), 1.0);
  return {std::move(name), std::move(x), std::move(y)};
}

std::string drawn(const std::vector<Curve>& curves, int rows, Style style) {
  return line_plot(curves, rows, style);
}

}  // namespace

TEST_CASE("a curve reaches from the smallest value to the largest") {
  const std::string ascii = drawn({curve({4, 3, 2, 1})}, 4, {.width = 16});
  CHECK(ascii ==
        " 4|***\n"
        "  |   ***\n"
        "  |      ***\n"
        " 1|         ***\n"
        "   1          4\n");
  const std::string dots = drawn({curve({1, 2})}, 1, {.unicode = true, .width = 13});
  CHECK(split(dots, '\n').front() == "   2│⣀⣀⠤⠤⠒⠒⠉⠉");
  CHECK(drawn({curve({2, 2, 2})}, 3, {.width = 16}).find("|") != std::string::npos);
}

TEST_CASE("no line of a plot is wider than the window") {
  std::vector<double> values(500);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i)) * 1234.5;
  for (const int width : {40, 80, 100, 200}) {
    for (const bool unicode : {false, true}) {
      for (const bool color : {false, true}) {
        const Style style = {.color = color, .unicode = unicode, .width = width};
        const std::string text = drawn({curve(values, "a"), curve(values, "b")}, 12, style);
        for (const std::string& line : split(text, '\n')) CHECK(visible_width(line) <= width);
      }
    }
  }
}

TEST_CASE("one peak among many values is visible") {
  std::vector<double> values(100'000, 1.0);
  values[70'001] = 9.0;
  const std::string text = drawn({curve(values)}, 8, {.width = 60});
  const std::vector<std::string> lines = split(text, '\n');
  CHECK(lines.front().find('9') != std::string::npos);
  const size_t peak = lines.front().find('*');
  REQUIRE(peak != std::string::npos);
  CHECK(static_cast<double>(peak) / 60.0 == Approx(0.7).margin(0.05));
  CHECK(std::count(lines.front().begin(), lines.front().end(), '*') <= 2);
}

TEST_CASE("values that are not finite interrupt a curve") {
  const double nan = std::nan("");
  CHECK(drawn({curve({nan, nan})}, 4, {.width = 40}) == "no finite values\n");
  const std::string text = drawn({curve({1, 1, nan, nan, nan, nan, 1, 1})}, 1, {.width = 40});
  const std::string line = split(text, '\n').front();
  CHECK(line.find("* ") != std::string::npos);
  CHECK(line.back() == '*');
}

TEST_CASE("several curves have a legend, and letters where there is no colour") {
  const std::vector<Curve> two = {curve({4, 3, 2}, "runs/a"), curve({4, 4, 4}, "runs/b")};
  const std::string text = drawn(two, 5, {.unicode = true, .width = 40});
  CHECK(text.find("a runs/a   b runs/b") != std::string::npos);
  CHECK(text.find("aaa") != std::string::npos);
  CHECK(text.find("bbb") != std::string::npos);
  const std::string colours = drawn(two, 5, {.color = true, .unicode = true, .width = 40});
  CHECK(colours.find("aaa") == std::string::npos);
}

TEST_CASE("a sparkline has the last values") {
  const std::vector<double> values = {9, 1, 2, 3, std::nan(""), 8};
  CHECK(sparkline(values, 5, {.unicode = true}) == "▁▂▃!█");
  CHECK(sparkline(values, 5, {}) == "_.-!#");
  CHECK(sparkline({}, 5, {}).empty());
  CHECK(sparkline(values, 0, {}).empty());
}

}  // namespace am::term
