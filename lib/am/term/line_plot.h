// Draws curves over a common horizontal axis, with braille dots or, in an ASCII locale, with "*".
// Without colour, each of several curves is drawn with a letter of its own.
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
  std::vector<double> y;  // as many as x; a value that is not finite interrupts the curve
};

// Smallest and largest coordinates of the points with finite y: the range of a plot's axes.
struct PlotRange {
  double x_low = 0.0, x_high = 0.0;
  double y_low = 0.0, y_high = 0.0;
  bool empty = true;  // whether no point has a finite y

  static PlotRange of(std::span<const Curve> curves);
};

// Draws the curves into one plot of `rows` lines that fills the style's width. The line below the
// plot shows the ends of the horizontal axis. The vertical axis reaches from the smallest to the
// largest value. Each column shows the range of the values that fall into this column; a single
// peak among a million values therefore stays visible. The last line names the curves if there are
// several. The curves differ by colour or, without colour, by letter.
std::string line_plot(std::span<const Curve> curves, int rows, const Style& style);

// Draws the last `columns` values in one line, one character per value: for example "█▅▄▃▂▂▁▁", or
// characters from "_" to "#" in an ASCII locale. The lowest character stands for the smallest of
// these values, the highest for the largest. Values that are not finite are drawn as "!".
std::string sparkline(std::span<const double> values, int columns, const Style& style);

}  // namespace am::term
