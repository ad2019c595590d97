// Draws standalone SVG pictures. They contain no scripts, fonts or links, and are legible on light
// and dark pages.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "am/inspect/command.h"
#include "am/term/line_plot.h"

namespace am::inspect {

struct ChartBar {
  std::string label;
  double value = 0.0;  // length of the bar; no bar is drawn if zero, negative or not finite
  std::string text;    // text right of the bar
};
// Returns a picture of horizontal bars, one per line. The largest value has the full bar length.
std::string bars_svg(const std::string& title, const std::vector<ChartBar>& bars);

// A heat map. The colour of a cell shows its value, from `low` (light) to `high` (dark). Cells
// whose value is not finite are marked.
struct Grid {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<double> cells;  // values of the cells, a row-major matrix [height, width]
  double low = 0.0;
  double high = 0.0;
  bool diverging = false;  // true: negative values are blue, positive ones orange

  double at(int64_t row, int64_t column) const {
    return cells[static_cast<size_t>(row * width + column)];
  }
  // Returns the cell's value as a position between `low` (0) and `high` (1); 0 if `low` equals
  // `high`.
  double share(int64_t row, int64_t column) const;
  // Returns the larger magnitude of `low` and `high`.
  double largest() const { return std::max(std::abs(low), std::abs(high)); }
};
std::string grid_svg(const std::string& title, const Grid& grid);

// A plot of several curves over one horizontal axis.
struct CurveBox {
  std::string title;
  std::vector<term::Curve> curves;
};
// Returns a picture of the plots, one below the other.
std::string curves_svg(const std::vector<CurveBox>& boxes);

// Implements the option --svg of commands: rank 0 writes the picture result.svg to the file, and
// result.text reports the path. An existing file is overwritten only with --force.
void write_picture(Session& session, const Arguments& arguments, Result& result);
// Overload for the console, where relative paths begin at the current folder.
void write_picture(const Arguments& arguments, Result& result);

}  // namespace am::inspect
