// Draws curves over a common horizontal axis, with braille dots or, in an ASCII locale, with "*".
// Several curves without colour are drawn with one letter each.
//
//   4.21 ⡇
//        ⠘⢄⡀
//   3.37   ⠈⠉⠒⠒⠤⠤
//        1         200
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "am/term/style.h"

namespace am::term {

struct Curve {
  std::string name;
  std::vector<double> x;  // ascending
  std::vector<double> y;  // as many as x; values that are not finite are left out
};

// Smallest and largest coordinates of the points with finite y: the range of a plot's axes.
struct PlotRange {
  double x_low = 0.0, x_high = 0.0;
  double y_low = 0.0, y_high = 0.0;
  bool empty = true;  // whether no point has a finite y

  static PlotRange of(std::span<const Curve> curves);
};

// Draws the curves into one box of `rows` lines that fills the style's width. The vertical axis
// reaches from the smallest to the largest value. Each column shows the range of the values that
// fall into it, so that a single peak among a million values stays visible. With several curves a
// last line names them; they differ by colour or, without colour, by letter.
std::string line_plot(std::span<const Curve> curves, int rows, const Style& style);

// Draws the last `columns` values as one line of blocks or, in an ASCII locale, of other
// characters, scaled from the smallest to the largest: "▇▅▄▃▂▂▁▁" for example. Values that are not
// finite are drawn as "!".
std::string sparkline(std::span<const double> values, int columns, const Style& style);

}  // namespace am::term
