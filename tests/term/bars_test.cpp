#include "am/term/bars.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace am::term;

namespace {

Style unicode() {
  Style style;
  style.unicode = true;
  return style;
}

}  // namespace

TEST_CASE("bars are proportional, in eighths or in ASCII") {
  const std::vector<Bar> items = {{"parameters", 8, "8 GiB"},
                                  {"größe", 2.25, "2.25 GiB"},
                                  {"sliver", 1e-9, ""},
                                  {"none", 0, "0 B"}};
  CHECK(bars(items, 8, unicode()) ==
        "parameters  ████████     8 GiB\n"
        "größe       ██▎       2.25 GiB\n"
        "sliver      ▏\n"
        "none                       0 B\n");
  CHECK(bars(items, 8, Style::plain()) ==
        "parameters  ########     8 GiB\n"
        "größe       ##        2.25 GiB\n"
        "sliver      #\n"
        "none                       0 B\n");
}

TEST_CASE("a scale larger than all values is the full length") {
  CHECK(bars(std::vector<Bar>{{"a", 2, ""}}, 8, Style::plain(), 4) == "a  ####\n");
  CHECK(bars(std::vector<Bar>{{"a", 8, ""}}, 8, Style::plain(), 4) == "a  ########\n");
}

TEST_CASE("values that are no lengths have no bar") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(bars(std::vector<Bar>{{"a", std::nan(""), "x"}, {"b", -1, ""}, {"c", inf, ""}}, 4,
             Style::plain()) == "a        x\nb\nc\n");
  CHECK(bars({}, 4, Style::plain()).empty());
}

TEST_CASE("a histogram has an edge, a bar, a count and a share for each bin") {
  CHECK(histogram(std::vector<int64_t>{1, 3, 0, 0}, -1, 1, 6, Style::plain()) ==
        "        -1  ##      1   25.0%\n"
        "      -0.5  ######  3   75.0%\n"
        "         0          0    0.0%\n"
        "       0.5          0    0.0%\n");
  CHECK(histogram(std::vector<int64_t>{0}, 0, 0, 6, Style::plain()) ==
        "         0          0    0.0%\n");
  CHECK(histogram({}, 0, 1, 6, Style::plain()).empty());
}
