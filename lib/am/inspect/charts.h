// Pictures as SVG files of their own: no scripts, no fonts, no links; legible on light and dark
// pages.
#pragma once

#include <string>
#include <vector>

#include "am/inspect/command.h"

namespace am::inspect {

struct ChartBar {
  std::string label;
  double value = 0.0;  // what is not positive and finite has no bar
  std::string text;    // behind the bar
};
// Bars to the right, one a line; the largest fills the picture.
std::string bars_svg(const std::string& title, const std::vector<ChartBar>& bars);

// Cells from `low` to `high`, light to dark; what is not finite is marked.
struct Grid {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<double> cells;  // [height, width]
  double low = 0.0;
  double high = 0.0;

  double at(int64_t row, int64_t column) const {
    return cells[static_cast<size_t>(row * width + column)];
  }
  // 0 to 1; 0 where all cells are equal.
  double share(int64_t row, int64_t column) const;
};
std::string grid_svg(const std::string& title, const Grid& grid);

// The option --svg of commands that draw: writes the picture on rank 0, never over a file that is
// there unless --force is given, and says so in the text.
void write_picture(Session& session, const Arguments& arguments, Result& result);

}  // namespace am::inspect
